//! Parts of an address family that a program needs: its headers, tables and constants, and its BPF
//! subprograms.

use shunt_common::{Cell, Hook, Tuple};

use crate::{
    ctx::{
        access::{Access, AccessError},
        verdict::Verdict,
    },
    forward::fib::Routed,
    lb::{draw::Draw, maglev::Maglev},
    nat::{again::Again, open::Open, own_flow::OwnFlow},
    packet::{link::Link, parsed::Packet},
    pipeline::{leaving::Leave, opened::Opened},
};

/// An address family in programs that have their packets as `C`.
pub(crate) trait Program<C: Access>:
    Routed + Open + OwnFlow + Again + Draw + Maglev
{
    /// [`crate::pipeline::fast_path::handle`].
    fn fast_path(context: &C, link: Link, hook: Hook) -> Option<Verdict>;

    /// Reads the packet into `packet`. Returns whether it concerns us: any other one is to be passed
    /// untouched, and what would have been ours but for its form was counted.
    fn parse(context: &C, link: Link, packet: &mut Packet<Self>) -> bool;

    /// Reads a packet that [`Self::parse`] has left into `packet`. Returns whether it is a request:
    /// see [`crate::packet::foreign`].
    fn read_foreign(context: &C, link: Link, packet: &mut Packet<Self>) -> bool;

    /// [`crate::pipeline::guard::judge`].
    fn guard(context: &C, packet: &Packet<Self>) -> Verdict;

    /// [`crate::pipeline::dsr::dispatch`].
    fn dispatch(context: &C, packet: &mut Packet<Self>, cell: Cell) -> Option<Verdict>;

    /// [`crate::pipeline::dsr::open`].
    fn open_envelope(context: &C, link: Link, packet: &mut Packet<Self>) -> Opened;

    /// [`crate::pipeline::dsr::lower_mss`]; returns whether that could be done.
    fn lower_mss(context: &C, packet: &Packet<Self>, translated: &Tuple<Self>) -> bool;

    /// [`crate::pipeline::leaving::is_elsewhere`], of a packet of the connection that has this reply half.
    fn is_elsewhere(context: &C, index: u32, version: u32) -> bool;

    /// [`crate::pipeline::leaving::decide`].
    fn leave(context: &C, packet: &Packet<Self>, translated: &Tuple<Self>) -> Leave;

    /// [`crate::pipeline::masquerade::settle`].
    fn settle(context: &C, backend: u32, cell: Cell) -> Cell;

    /// Gives the packet the tuple `new`. `Err` leaves a packet that must be dropped.
    fn rewrite(context: &C, packet: &Packet<Self>, new: &Tuple<Self>) -> Result<(), AccessError>;
}
