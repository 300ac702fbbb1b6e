//! Minimum cost of memory where many connections take turns: a packet reads the lines of one slot
//! of a table, at a place that its flow decides, and nothing is compared or rewritten.

use aya_ebpf::{
    bindings::{BPF_F_MMAPABLE, TC_ACT_SHOT, TC_ACT_UNSPEC},
    btf_maps::Array,
    macros::{btf_map, classifier},
    programs::TcContext,
};

use crate::{read, write};

/// Number of slots of a table: as many as one of Shunt's for 1,048,576 entries.
const SLOTS: usize = 3 << 19;

/// Values begin at a page with this flag, so each slot has its own lines.
const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

/// Words of a line.
const LINE: usize = 8;

/// Slots of a line each.
#[btf_map]
pub(crate) static LINES_V4: Array<[u64; LINE], SLOTS, MMAPABLE> = Array::new();

/// Slots of two lines each.
#[btf_map]
pub(crate) static LINES_V6: Array<[u64; 2 * LINE], SLOTS, MMAPABLE> = Array::new();

/// Reads a line for a packet of IPv4. `TC_ACT_SHOT` if it is none.
#[classifier]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn lines_v4(context: TcContext) -> i32 {
    const ADDRESSES: usize = 14 + 12;
    const PORTS: usize = 14 + 20;
    let start = context.data();
    if start + PORTS + 4 > context.data_end() {
        return TC_ACT_SHOT;
    }
    // SAFETY: the comparison above.
    let flow = unsafe { (read::<u64>(start + ADDRESSES), read::<u32>(start + PORTS)) };
    let Some(slot) = LINES_V4.get(slot(flow)) else {
        return TC_ACT_SHOT;
    };
    // SAFETY: as above.
    unsafe { write(start + PORTS, flow.1.wrapping_add(slot[0] as u32)) };
    TC_ACT_UNSPEC
}

/// Reads two lines for a packet of IPv6. `TC_ACT_SHOT` if it is none.
#[classifier]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn lines_v6(context: TcContext) -> i32 {
    const SOURCE: usize = 14 + 8;
    const DESTINATION: usize = SOURCE + 16;
    const PORTS: usize = 14 + 40;
    let start = context.data();
    if start + PORTS + 4 > context.data_end() {
        return TC_ACT_SHOT;
    }
    // SAFETY: the comparison above. The words of the two addresses that differ between flows.
    let (source, destination, ports) = unsafe {
        (
            read::<u64>(start + SOURCE + 8),
            read::<u64>(start + DESTINATION + 8),
            read::<u32>(start + PORTS),
        )
    };
    let flow = (source ^ destination, ports);
    let Some(slot) = LINES_V6.get(slot(flow)) else {
        return TC_ACT_SHOT;
    };
    let read = slot[0].wrapping_add(slot[LINE]) as u32;
    // SAFETY: as above.
    unsafe { write(start + PORTS, ports.wrapping_add(read)) };
    TC_ACT_UNSPEC
}

/// The slot of a flow: `SplitMix64`'s last steps, so that neighbours do not lie side by side.
#[inline(always)]
pub(crate) const fn slot((addresses, ports): (u64, u32)) -> u32 {
    let sum = addresses ^ (ports as u64).rotate_left(20);
    let sum = (sum ^ sum >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let sum = (sum ^ sum >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (((sum >> 32) * SLOTS as u64) >> 32) as u32
}
