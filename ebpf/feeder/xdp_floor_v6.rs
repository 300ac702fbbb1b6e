//! Minimum cost of an envelope at the driver, written by hand, over IPv6: as in [`crate::xdp_floor`].

use aya_ebpf::{
    bindings::xdp_action::XDP_ABORTED,
    btf_maps::{HashMap, LruHashMap},
    helpers::{bpf_redirect, bpf_xdp_adjust_head},
    macros::{btf_map, xdp},
    programs::XdpContext,
};
use shunt_common::feeder::{EnvelopeV6, FLOOR_EXIT, FlowV6, LENGTH_V6};

use crate::{read, write};

const LINK: usize = 14;
const PAYLOAD_LENGTH: usize = LINK + 4;
const PROTOCOL: usize = LINK + 6;
const HOPS: usize = LINK + 7;
const ADDRESSES: usize = LINK + 8;
const PORTS: usize = ADDRESSES + 32;

/// IPv6 inside, and hops, in network order.
const SIXTY_FOUR_HOPS: u16 = u16::from_ne_bytes([41, 64]);

/// Number of bytes by which an envelope makes a packet longer.
const ENVELOPE: usize = 40;

/// Flows, and what becomes of them.
#[btf_map]
pub(crate) static TRANSLATIONS_V6: HashMap<FlowV6, EnvelopeV6, 1024> = HashMap::new();

/// As many as are loaded for, of which the ones that were not used for the longest give way.
#[btf_map]
pub(crate) static RECENT_TRANSLATIONS_V6: LruHashMap<FlowV6, EnvelopeV6, 1024> = LruHashMap::new();

/// Puts TCP over IPv6 into an envelope to the node that its flow's entry has. A packet of an unknown flow is
/// `XDP_ABORTED`.
#[xdp]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn floor_xdp_envelope_v6(context: XdpContext) -> u32 {
    // SAFETY: the value is read before it can be replaced, and a bench replaces none.
    by_flow(&context, |flow| unsafe { TRANSLATIONS_V6.get(flow) })
}

/// The same, with the table that flows are usually kept in by other load balancers.
#[xdp]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn floor_xdp_envelope_lru_v6(context: XdpContext) -> u32 {
    // SAFETY: as above.
    by_flow(&context, |flow| unsafe { RECENT_TRANSLATIONS_V6.get(flow) })
}

/// The flow of a packet that is long enough.
#[inline(always)]
fn flow(context: &XdpContext) -> Option<FlowV6> {
    let start = context.data();
    if start + LENGTH_V6 > context.data_end() {
        return None;
    }
    // SAFETY: the comparison above.
    unsafe {
        Some(FlowV6 {
            addresses: [0, 8, 16, 24].map(|place| read(start + ADDRESSES + place)),
            rest: u64::from(read::<u32>(start + PORTS))
                | u64::from(read::<u8>(start + PROTOCOL)) << 32,
        })
    }
}

/// Sends the packet on in an envelope with the addresses of its flow's entry; `XDP_ABORTED` if it has none.
#[inline(always)]
fn by_flow(context: &XdpContext, find: impl Fn(FlowV6) -> Option<&'static EnvelopeV6>) -> u32 {
    let Some(EnvelopeV6 { addresses }) = flow(context).and_then(find) else {
        return XDP_ABORTED;
    };
    let start = context.data();
    if start + LENGTH_V6 > context.data_end() {
        return XDP_ABORTED;
    }
    // SAFETY: the comparison above.
    let (class, length) = unsafe {
        let hops: u8 = read(start + HOPS);
        write(start + HOPS, hops - 1);
        (
            read::<u32>(start + LINK),
            u16::from_be(read(start + PAYLOAD_LENGTH)),
        )
    };
    // SAFETY: the context is the kernel's.
    if unsafe { bpf_xdp_adjust_head(context.ctx, -(ENVELOPE as i32)) } != 0 {
        return XDP_ABORTED;
    }
    let start = context.data();
    if start + ENVELOPE + LENGTH_V6 > context.data_end() {
        return XDP_ABORTED;
    }
    let length = (length + ENVELOPE as u16).to_be();
    // SAFETY: the comparison above.
    unsafe {
        // Two link addresses, and an EtherType.
        write(start, 0x0002_0900_0000_0002_u64);
        write(start + 8, 0x0100_0000_u32);
        write(start + 12, 0x86dd_u16.to_be());
        write(start + LINK, class);
        let rest = u32::from(length) | u32::from(SIXTY_FOUR_HOPS) << 16;
        write(start + PAYLOAD_LENGTH, rest);
        for (place, word) in addresses.iter().enumerate() {
            write(start + ADDRESSES + 8 * place, *word);
        }
    }
    // SAFETY: the helper takes any interface index.
    unsafe { bpf_redirect(FLOOR_EXIT, 0) as u32 }
}
