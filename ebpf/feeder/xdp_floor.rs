//! Minimum cost of transit at the driver, written by hand. A packet's flow is looked up in one
//! kernel hash, and the packet gets other addresses and ports, right checksums, one hop less and the
//! link addresses of a next hop that is always the same. Nothing is checked but the frame's length;
//! what the checksums change by stands in the entry.

use aya_ebpf::{
    bindings::xdp_action::{XDP_ABORTED, XDP_PASS},
    btf_maps::{Array, HashMap, LruHashMap},
    helpers::{bpf_redirect, bpf_xdp_adjust_head},
    macros::{btf_map, xdp},
    programs::XdpContext,
};
use shunt_common::{
    FilterPlace,
    feeder::{FLOOR_EXIT, Flow, LENGTH_V4, Translation},
};

use crate::{
    lines::{LINES_V4, slot},
    read, write,
};

const LINK: usize = 14;
const HOPS: usize = LINK + 8;
const PROTOCOL: usize = HOPS + 1;
const NETWORK_CHECKSUM: usize = HOPS + 2;
const ADDRESSES: usize = HOPS + 4;
const PORTS: usize = ADDRESSES + 8;
const TRANSPORT_CHECKSUM: usize = PORTS + 16;

/// An envelope's words in network order: version and length beside what routers are to do; no number, not to
/// be cut; hops, IPv4 inside and a checksum of nothing.
const VERSION_AND_LENGTH: u16 = u16::from_ne_bytes([0x45, 0]);
const SERVICE: u16 = u16::from_ne_bytes([0, 0xff]);
const UNCUT: u32 = u32::from_ne_bytes([0, 0, 0x40, 0]);
const SIXTY_FOUR_HOPS: u32 = u32::from_ne_bytes([64, 4, 0xff, 0xff]);

/// Number of bytes by which an envelope makes a packet longer.
const ENVELOPE_V4: usize = 20;

/// Flows, and what becomes of them.
#[btf_map]
pub(crate) static TRANSLATIONS: HashMap<Flow, Translation, 1024> = HashMap::new();

/// As many as are loaded for, of which the ones that were not used for the longest give way.
#[btf_map]
pub(crate) static RECENT_TRANSLATIONS: LruHashMap<Flow, Translation, 1024> = LruHashMap::new();

/// The filter of addresses that have an owner here: empty.
#[btf_map]
pub(crate) static FILTER: Array<u64, { FilterPlace::WORDS }> = Array::new();

/// The services of another node, none of which is asked for.
#[btf_map]
pub(crate) static FRONTENDS: HashMap<u64, u32, 1024> = HashMap::new();

/// Translates TCP over IPv4 without options. A packet of an unknown flow is `XDP_ABORTED`, so that a
/// bench sees it.
#[xdp]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn floor_xdp(context: XdpContext) -> u32 {
    // SAFETY: the value is read before it can be replaced, and a bench replaces none.
    by_flow(&context, |flow| unsafe { TRANSLATIONS.get(flow) }, send)
}

/// The same, with the table that flows are usually kept in by other load balancers.
#[xdp]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn floor_xdp_lru(context: XdpContext) -> u32 {
    // SAFETY: as above.
    by_flow(
        &context,
        |flow| unsafe { RECENT_TRANSLATIONS.get(flow) },
        send,
    )
}

/// Puts TCP over IPv4 into an envelope to the node that its flow's entry has. A packet of an unknown flow is
/// `XDP_ABORTED`.
#[xdp]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn floor_xdp_envelope(context: XdpContext) -> u32 {
    // SAFETY: as above.
    by_flow(&context, |flow| unsafe { TRANSLATIONS.get(flow) }, wrap)
}

/// The same, with the table that flows are usually kept in by other load balancers.
#[xdp]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn floor_xdp_envelope_lru(context: XdpContext) -> u32 {
    // SAFETY: as above.
    by_flow(
        &context,
        |flow| unsafe { RECENT_TRANSLATIONS.get(flow) },
        wrap,
    )
}

/// Finds out that a packet is for no owner here: no frontend's address by a word of a filter, and of no
/// connection by a slot of a table.
#[xdp]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn stranger_xdp(context: XdpContext) -> u32 {
    let Some(Flow { addresses, rest }) = flow(&context) else {
        return XDP_ABORTED;
    };
    let destination = (addresses >> 32) as u32;
    let place = FilterPlace::of(&destination);
    let Some(word) = FILTER.get(place.word) else {
        return XDP_ABORTED;
    };
    let Some(slot) = LINES_V4.get(slot((addresses, rest as u32))) else {
        return XDP_ABORTED;
    };
    if place.has_frontends(*word) || slot[0] == addresses && slot[1] == rest {
        return XDP_ABORTED;
    }
    XDP_PASS
}

/// The same by two kernel hashes: of frontends and of flows.
#[xdp]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn stranger_xdp_hashes(context: XdpContext) -> u32 {
    let Some(flow) = flow(&context) else {
        return XDP_ABORTED;
    };
    let Flow { addresses, rest } = flow;
    let frontend = addresses >> 32 | (rest >> 16) << 32;
    // SAFETY: the values are not read.
    let is_known = unsafe { FRONTENDS.get(frontend).is_some() || TRANSLATIONS.get(flow).is_some() };
    if is_known { XDP_ABORTED } else { XDP_PASS }
}

/// The flow of a packet that is long enough.
#[inline(always)]
pub(crate) fn flow(context: &XdpContext) -> Option<Flow> {
    let start = context.data();
    if start + LENGTH_V4 > context.data_end() {
        return None;
    }
    // SAFETY: the comparison above.
    let (addresses, ports, protocol) = unsafe {
        (
            read::<u64>(start + ADDRESSES),
            read::<u32>(start + PORTS),
            read::<u8>(start + PROTOCOL),
        )
    };
    Some(Flow {
        addresses,
        rest: u64::from(ports) | u64::from(protocol) << 32,
    })
}

/// Handles the packet by its flow's entry; `XDP_ABORTED` if it has none.
#[inline(always)]
fn by_flow(
    context: &XdpContext,
    find: impl Fn(Flow) -> Option<&'static Translation>,
    then: impl Fn(&XdpContext, &Translation) -> u32,
) -> u32 {
    match flow(context).and_then(find) {
        Some(translation) => then(context, translation),
        None => XDP_ABORTED,
    }
}

/// Translates the packet, and sends it on.
#[inline(always)]
fn send(context: &XdpContext, translation: &Translation) -> u32 {
    let start = context.data();
    if start + LENGTH_V4 > context.data_end() {
        return XDP_ABORTED;
    }
    let &Translation {
        addresses,
        ports,
        network_change,
        transport_change,
    } = translation;
    // SAFETY: the comparison above.
    unsafe {
        let hops: u8 = read(start + HOPS);
        write(start + HOPS, hops - 1);
        change(start + NETWORK_CHECKSUM, network_change);
        write(start + ADDRESSES, addresses);
        write(start + PORTS, ports);
        change(start + TRANSPORT_CHECKSUM, transport_change);
        // Two link addresses.
        write(start, 0x0002_0900_0000_0002_u64);
        write(start + 8, 0x0100_0000_u32);
    }
    // SAFETY: the helper takes any interface index.
    unsafe { bpf_redirect(FLOOR_EXIT, 0) as u32 }
}

/// Sends the packet on in an envelope with the addresses of the entry. Its other changes are those of the
/// packet's checksum by one hop less, and of the envelope's by its packet.
#[inline(always)]
pub(crate) fn wrap(context: &XdpContext, translation: &Translation) -> u32 {
    let start = context.data();
    if start + LENGTH_V4 > context.data_end() {
        return XDP_ABORTED;
    }
    // SAFETY: the comparison above.
    let (service, length) = unsafe {
        let hops: u8 = read(start + HOPS);
        write(start + HOPS, hops - 1);
        change(start + NETWORK_CHECKSUM, translation.network_change);
        (
            read::<u16>(start + LINK) & SERVICE,
            u16::from_be(read(start + LINK + 2)),
        )
    };
    // SAFETY: the context is the kernel's.
    if unsafe { bpf_xdp_adjust_head(context.ctx, -(ENVELOPE_V4 as i32)) } != 0 {
        return XDP_ABORTED;
    }
    let start = context.data();
    if start + ENVELOPE_V4 + LENGTH_V4 > context.data_end() {
        return XDP_ABORTED;
    }
    let first = VERSION_AND_LENGTH | service;
    let length = (length + ENVELOPE_V4 as u16).to_be();
    // SAFETY: the comparison above.
    unsafe {
        // Two link addresses, and an EtherType.
        write(start, 0x0002_0900_0000_0002_u64);
        write(start + 8, 0x0100_0000_u32);
        write(start + 12, 0x0800_u16.to_be());
        write(start + LINK, u32::from(first) | u32::from(length) << 16);
        write(start + LINK + 4, UNCUT);
        write(start + LINK + 8, SIXTY_FOUR_HOPS);
        write(start + ADDRESSES, translation.addresses);
        change(start + NETWORK_CHECKSUM, translation.transport_change);
        change(start + NETWORK_CHECKSUM, service);
        change(start + NETWORK_CHECKSUM, length);
    }
    // SAFETY: the helper takes any interface index.
    unsafe { bpf_redirect(FLOOR_EXIT, 0) as u32 }
}

/// Changes a checksum field: RFC 1624, equation 3.
///
/// # Safety
///
/// It lies within the packet.
#[inline(always)]
unsafe fn change(field: usize, by: u16) {
    // SAFETY: the caller's word.
    unsafe {
        let checksum: u16 = read(field);
        let sum = u32::from(!checksum) + u32::from(by);
        write(field, !((sum & 0xffff) + (sum >> 16)) as u16);
    }
}
