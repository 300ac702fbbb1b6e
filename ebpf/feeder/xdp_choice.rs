//! Minimum cost of an envelope whose node is chosen, written by hand: a packet's frontend is looked up in a
//! kernel hash, and its number chooses one of the frontend's slots, which names a backend, which has a node.
//! Nothing is checked, and nothing is counted.

use aya_ebpf::{
    bindings::xdp_action::XDP_ABORTED,
    btf_maps::{Array, HashMap},
    macros::{btf_map, xdp},
    programs::XdpContext,
};
use shunt_common::feeder::{CHOICES, Choices, Flow, Translation};

use crate::xdp_floor::{flow, wrap};

/// Place of a frontend's slots, by its address, port and protocol.
#[btf_map]
pub(crate) static CHOICE_FRONTENDS: HashMap<u64, u32, 1024> = HashMap::new();

/// Frontends' slots.
#[btf_map]
pub(crate) static CHOICE_CELLS: Array<Choices, { CHOICES as usize }> = Array::new();

/// Backends, by slot.
#[btf_map]
pub(crate) static CHOICE_SLOTS: Array<[u32; 4], { CHOICES as usize }> = Array::new();

/// Nodes, by backend.
#[btf_map]
pub(crate) static CHOICE_BACKENDS: Array<[u32; 8], { CHOICES as usize }> = Array::new();

/// Envelopes, by node.
#[btf_map]
pub(crate) static CHOICE_NODES: Array<Translation, { CHOICES as usize }> = Array::new();

/// Puts TCP over IPv4 into an envelope to the node of the backend that it chooses. What it does not know is
/// `XDP_ABORTED`.
#[xdp]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn floor_xdp_choice(context: XdpContext) -> u32 {
    match flow(&context).and_then(choose) {
        Some(translation) => wrap(&context, translation),
        None => XDP_ABORTED,
    }
}

#[inline(always)]
fn choose(Flow { addresses, rest }: Flow) -> Option<&'static Translation> {
    let (ports, protocol) = (rest as u32, rest >> 32);
    let frontend = addresses >> 32 | u64::from(ports >> 16) << 32 | protocol << 48;
    // SAFETY: the value is read before it can be replaced, and a bench replaces none.
    let index = *unsafe { CHOICE_FRONTENDS.get(frontend) }?;
    let Choices { first, count } = *CHOICE_CELLS.get(index)?;
    let slot = CHOICE_SLOTS.get(first + place(addresses, ports, count))?;
    let backend = CHOICE_BACKENDS.get(slot[0])?;
    CHOICE_NODES.get(backend[0])
}

/// Returns which of so many slots packets of the flow get: the finalizer of `MurmurHash3_x64_128`.
#[inline(always)]
const fn place(addresses: u64, ports: u32, count: u32) -> u32 {
    let mixed = addresses ^ (ports as u64).rotate_left(29);
    let mixed = (mixed ^ mixed >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (((mixed >> 32) * count as u64) >> 32) as u32
}
