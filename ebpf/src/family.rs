//! What the address families do differently: tables, headers, checksums. Everything else is one
//! generic source.

use aya_ebpf::programs::TcContext;
use shunt_common::{PodCidrs, Tuple};

use crate::{
    frame::Unreadable,
    maps::{Backends, Cells, Conntrack, Frontends, Slots},
};

/// The kernel's side of an address family.
pub trait Family: shunt_common::Family {
    /// The family's tables.
    fn frontends() -> &'static Frontends<Self>;
    fn cells() -> &'static Cells;
    fn slots() -> &'static Slots;
    fn backends() -> &'static Backends<Self>;
    fn conntrack() -> &'static Conntrack<Self>;
    /// Where this node's pods take their addresses from.
    fn pod_cidrs() -> PodCidrs<Self>;

    /// The address that a pod sees when it reaches itself through its service.
    fn hairpin_ip() -> Self::Address;

    /// Whether the kernel says that the packet is of this family.
    fn carried_by(context: &TcContext) -> bool;

    /// Reads the network header at `offset`.
    fn read(context: &TcContext, offset: usize) -> Result<Network<Self>, Unreadable>;

    /// How long [`Self::write_unreachable`]'s headers are.
    const UNREACHABLE_LENGTH: usize;

    /// Writes the headers of an ICMP "port unreachable" at `offset`, from the destination of the
    /// packet with this tuple to its source. Room for them is there; the `quoted` bytes of that
    /// packet follow, a multiple of 4.
    fn write_unreachable(
        context: &TcContext,
        offset: usize,
        quoted: usize,
        tuple: &Tuple<Self>,
    ) -> Result<(), Unreadable>;

    /// Replaces the addresses `old` by `new` in the network header at `offset`, and what the
    /// header itself has of checksums.
    fn write(
        context: &TcContext,
        offset: usize,
        old: &Tuple<Self>,
        new: &Tuple<Self>,
    ) -> Result<(), Unreadable>;
}

/// What the network header says.
pub struct Network<F: Family> {
    pub source: F::Address,
    pub destination: F::Address,
    pub protocol: u8,
    /// Offset of the transport header.
    pub transport: usize,
}
