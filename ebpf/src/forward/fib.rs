//! FIB lookup: asking the kernel's routing tables for a packet's way.

use aya_ebpf::bindings::bpf_fib_lookup as FibLookup;
use shunt_common::{Tuple, V4, V6};

use crate::{
    ctx::access::{Access, AccessError},
    maps::tables::{LOOKUPS, Tables},
    packet::{ipv4::Ipv4Header, ipv6::Ipv6Header, offset::Extent},
    rewrite::network::Rewrite,
};

/// `AF_INET` and `AF_INET6` of `linux/socket.h`.
const INET: u8 = 2;
const INET6: u8 = 10;

/// Differences of the families when a packet's way is looked up.
pub(crate) trait Routed: Rewrite + Tables {
    /// Writes into `lookup` what the way depends on of every packet with the addresses of
    /// `translated`.
    fn set_addresses(translated: &Tuple<Self>, lookup: &mut FibLookup);

    /// Writes the traffic class of a packet with this header into `lookup`, and its flow label if it has one.
    fn set_class(header: &Self::Header, lookup: &mut FibLookup);

    /// Writes into `lookup` what the way depends on of a packet with this header, once it has the
    /// tuple `translated`.
    #[inline(always)]
    fn set_key(header: &Self::Header, translated: &Tuple<Self>, lookup: &mut FibLookup) {
        Self::set_addresses(translated, lookup);
        Self::set_class(header, lookup);
        lookup.l4_protocol = Self::protocol(header);
        lookup.sport = translated.source_port;
        lookup.dport = translated.destination_port;
    }

    /// The protocol that the header names.
    fn protocol(header: &Self::Header) -> u8;

    /// Returns whether the way's next hop is the destination itself.
    fn leads_to(way: &FibLookup, destination: &Self::Address) -> bool;

    /// True if the kernel has a setting `rp_filter` for the family.
    const HAS_REVERSE_PATH_FILTER: bool;
}

impl Routed for V4 {
    const HAS_REVERSE_PATH_FILTER: bool = true;

    #[inline(always)]
    fn set_addresses(translated: &Tuple<Self>, lookup: &mut FibLookup) {
        lookup.family = INET;
        lookup.__bindgen_anon_3.ipv4_src = translated.source;
        lookup.__bindgen_anon_4.ipv4_dst = translated.destination;
    }

    #[inline(always)]
    fn set_class(header: &Ipv4Header, lookup: &mut FibLookup) {
        lookup.__bindgen_anon_2.tos = header.service;
    }

    #[inline(always)]
    fn protocol(header: &Ipv4Header) -> u8 {
        header.protocol
    }

    #[inline(always)]
    fn leads_to(way: &FibLookup, destination: &u32) -> bool {
        // SAFETY: a word; the gateway's family may be IPv6.
        way.family == INET && unsafe { way.__bindgen_anon_4.ipv4_dst } == *destination
    }
}

impl Routed for V6 {
    const HAS_REVERSE_PATH_FILTER: bool = false;

    #[inline(always)]
    fn set_addresses(translated: &Tuple<Self>, lookup: &mut FibLookup) {
        lookup.family = INET6;
        lookup.__bindgen_anon_3.ipv6_src = translated.source;
        lookup.__bindgen_anon_4.ipv6_dst = translated.destination;
    }

    #[inline(always)]
    fn set_class(header: &Ipv6Header, lookup: &mut FibLookup) {
        // `IPV6_FLOWINFO_MASK` of net/ipv6.h.
        lookup.__bindgen_anon_2.flowinfo = header.version_class_flow & 0x0fff_ffff_u32.to_be();
    }

    #[inline(always)]
    fn protocol(header: &Ipv6Header) -> u8 {
        header.next_header
    }

    #[inline(always)]
    fn leads_to(way: &FibLookup, destination: &[u32; 4]) -> bool {
        // SAFETY: four words.
        unsafe { way.__bindgen_anon_4.ipv6_dst == *destination }
    }
}

/// Looks up the way of the packet with its network header at `network` once it has the tuple
/// `translated`, if it is `length` bytes long from there. Returns a `BPF_FIB_LKUP_RET_`, and what the
/// kernel has filled in.
#[inline(always)]
pub(crate) fn look_up<F: Routed>(
    context: &impl Access,
    network: usize,
    translated: &Tuple<F>,
    length: u16,
) -> Result<(u32, &'static FibLookup), AccessError> {
    let lookup = blank()?;
    F::set_key(context.at::<F::Header>(network)?, translated, lookup);
    lookup.__bindgen_anon_1.tot_len = length;
    lookup.ifindex = context.interface();
    let result = context.fib_lookup(lookup)?;
    Ok((result, lookup))
}

/// As [`look_up`], for every packet with the addresses of `translated` that is not longer, whatever its
/// ports and its service are: so of several next hops all packets from one address to another have the same.
#[inline(always)]
pub(crate) fn look_up_for_all<F: Routed>(
    context: &impl Access,
    translated: &Tuple<F>,
    length: u16,
) -> Result<(u32, &'static FibLookup), AccessError> {
    let lookup = blank()?;
    F::set_addresses(translated, lookup);
    lookup.__bindgen_anon_1.tot_len = length;
    lookup.ifindex = context.interface();
    let result = context.fib_lookup(lookup)?;
    Ok((result, lookup))
}

/// Looks up the way to the source of a packet that came in with the tuple `came` and its network header at `network`, by
/// what the kernel looks it up by (`__fib_validate_source` of net/ipv4/fib_frontend.c): the addresses and the traffic
/// class.
#[inline(always)]
pub(crate) fn look_up_way_back<F: Routed>(
    context: &impl Access,
    network: usize,
    came: &Tuple<F>,
) -> Result<(u32, &'static FibLookup), AccessError> {
    let lookup = blank()?;
    F::set_addresses(&came.reversed(), lookup);
    F::set_class(context.at::<F::Header>(network)?, lookup);
    // Fits any interface.
    lookup.__bindgen_anon_1.tot_len = 1;
    lookup.ifindex = context.interface();
    let result = context.fib_lookup(lookup)?;
    Ok((result, lookup))
}

/// As [`look_up_for_all`], but of this protocol and from the source port of `translated`, for packets that are about to
/// leave, of any length: they are looked up as they came into this host.
#[inline(always)]
pub(crate) fn look_up_from_arrival<F: Routed>(
    context: &impl Access,
    translated: &Tuple<F>,
    protocol: u8,
) -> Result<(u32, &'static FibLookup), AccessError> {
    let lookup = blank()?;
    F::set_addresses(translated, lookup);
    lookup.l4_protocol = protocol;
    lookup.sport = translated.source_port;
    // Fits any interface, so that the result is the way's MTU.
    lookup.__bindgen_anon_1.tot_len = 1;
    lookup.ifindex = context.came_by();
    let result = context.fib_lookup(lookup)?;
    Ok((result, lookup))
}

/// Returns this CPU's arguments of a lookup, empty.
#[inline(always)]
fn blank() -> Result<&'static mut FibLookup, AccessError> {
    // Always there: the table has an entry for each CPU.
    let lookup = LOOKUPS.get_ptr_mut(0).ok_or(AccessError::Refused)?;
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let lookup = unsafe { &mut *lookup };
    // SAFETY: words, bytes and unions of them.
    *lookup = unsafe { core::mem::zeroed() };
    Ok(lookup)
}

/// The length of the longest packet that this one becomes on the wire, without its link's header:
/// its own, or that of a segment, if the kernel is still to cut it into segments.
#[inline(always)]
pub(crate) fn longest_packet(context: &impl Access, extent: Extent) -> u16 {
    let Extent { network, payload } = extent;
    let segment = context.segment_size();
    let whole = if segment == 0 {
        context.length() as usize
    } else {
        payload + segment as usize
    };
    (whole - network) as u16
}
