//! What the two address families do differently: tables, headers, checksums. Everything else is
//! one generic source.

use aya_ebpf::programs::TcContext;
use shunt_common::{PodCidrs, Tuple, V4};

use crate::{
    config,
    frame::{Unreadable, at, at_mut},
    maps::{self, Backends, Cells, Conntrack, Frontends, Slots},
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

/// `ETH_P_IP` of `linux/if_ether.h`, as `__sk_buff::protocol` holds it.
const ETHERTYPE_IPV4: u32 = 0x0800_u16.to_be() as u32;

/// The IPv4 header without options, RFC 791 section 3.1; multi-byte fields in network order.
#[repr(C)]
struct Ipv4Header {
    version_and_length: u8,
    service: u8,
    total_length: u16,
    identification: u16,
    fragment: u16,
    time_to_live: u8,
    protocol: u8,
    checksum: u16,
    source: u32,
    destination: u32,
}

const _: () = assert!(size_of::<Ipv4Header>() == 20, "RFC 791: five words");

impl Family for V4 {
    #[inline(always)]
    fn frontends() -> &'static Frontends<Self> {
        &maps::FRONTENDS_V4
    }

    #[inline(always)]
    fn cells() -> &'static Cells {
        &maps::CELLS_V4
    }

    #[inline(always)]
    fn slots() -> &'static Slots {
        &maps::SLOTS_V4
    }

    #[inline(always)]
    fn backends() -> &'static Backends<Self> {
        &maps::BACKENDS_V4
    }

    #[inline(always)]
    fn conntrack() -> &'static Conntrack<Self> {
        &maps::CONNTRACK_V4
    }

    #[inline(always)]
    fn pod_cidrs() -> PodCidrs<Self> {
        config::POD_CIDRS_V4.load()
    }

    #[inline(always)]
    fn hairpin_ip() -> u32 {
        config::HAIRPIN_IP_V4.load()
    }

    #[inline(always)]
    fn carried_by(context: &TcContext) -> bool {
        context.skb.protocol() == ETHERTYPE_IPV4
    }

    #[inline(always)]
    fn read(context: &TcContext, offset: usize) -> Result<Network<Self>, Unreadable> {
        let header = at::<Ipv4Header>(context, offset)?;
        let length = usize::from(header.version_and_length & 0x0f) * 4;
        if header.version_and_length >> 4 != 4 || length < size_of::<Ipv4Header>() {
            return Err(Unreadable::Foreign);
        }
        // "More fragments" or an offset: this packet has no ports of its own, or its rest comes
        // without them.
        if header.fragment & 0x3fff_u16.to_be() != 0 {
            return Err(Unreadable::Fragment);
        }
        Ok(Network {
            source: header.source,
            destination: header.destination,
            protocol: header.protocol,
            transport: offset + length,
        })
    }

    #[inline(always)]
    fn write(
        context: &TcContext,
        offset: usize,
        old: &Tuple<Self>,
        new: &Tuple<Self>,
    ) -> Result<(), Unreadable> {
        let header = at_mut::<Ipv4Header>(context, offset)?;
        header.source = new.source;
        header.destination = new.destination;
        header.checksum = old.address_difference(new).apply(header.checksum);
        Ok(())
    }
}
