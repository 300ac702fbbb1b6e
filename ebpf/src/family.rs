//! What the address families do differently: tables, headers, checksums. Everything else is one
//! generic source.

use aya_ebpf::{bindings::bpf_fib_lookup, programs::TcContext};
use shunt_common::{PodCidrs, Tuple};

use crate::{
    frame::Unreadable,
    icmp::IcmpError,
    maps::{Affinity, Backends, Cells, Conntrack, Frontends, Node, Slots, SourceRanges},
};

/// The kernel's side of an address family.
pub trait Family: shunt_common::Family {
    /// The family's tables.
    fn frontends() -> &'static Frontends<Self>;
    fn cells() -> &'static Cells;
    fn slots() -> &'static Slots;
    fn backends() -> &'static Backends<Self>;
    fn source_ranges() -> &'static SourceRanges<Self>;
    fn affinity() -> &'static Affinity<Self>;
    fn node() -> &'static Node<Self>;
    fn conntrack() -> &'static Conntrack<Self>;

    /// Where this node's pods take their addresses from.
    fn pod_cidrs() -> PodCidrs<Self>;

    /// The address that a pod sees when it reaches itself through its service.
    fn hairpin_ip() -> Self::Address;

    /// Whether the kernel says that the packet is of this family.
    fn carried_by(context: &TcContext) -> bool;

    /// Reads the network header at `offset`.
    fn read(context: &TcContext, offset: usize) -> Result<Network<Self>, Unreadable>;

    /// Nobody listens at the port.
    const PORT_UNREACHABLE: IcmpError;
    /// The hop limit is used up.
    const EXPIRED: IcmpError;

    /// The packet is longer than `mtu`.
    fn too_long(mtu: u16) -> IcmpError;

    /// How long [`Self::write_icmp`]'s headers are.
    const ICMP_LENGTH: usize;

    /// Writes the headers of an ICMP error at `offset`, from the destination of the packet with
    /// this tuple to its source. Room for them is there; the `quoted` bytes of that packet
    /// follow, a multiple of 4.
    fn write_icmp(
        context: &TcContext,
        offset: usize,
        quoted: usize,
        tuple: &Tuple<Self>,
        error: IcmpError,
    ) -> Result<(), Unreadable>;

    /// How many more hops the packet with its network header at `offset` may make.
    fn hop_limit(context: &TcContext, offset: usize) -> Result<u8, Unreadable>;

    /// Takes one hop off that, which is not 0.
    fn decrement_hop_limit(context: &TcContext, offset: usize) -> Result<(), Unreadable>;

    /// Writes into `lookup` what the way of that packet depends on, once it has the tuple
    /// `translated`.
    fn route_key(
        context: &TcContext,
        offset: usize,
        translated: &Tuple<Self>,
        lookup: &mut bpf_fib_lookup,
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
