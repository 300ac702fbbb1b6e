//! Feeding programs at the driver, and the least that they can be.

use aya_ebpf::{
    bindings::xdp_action::{XDP_ABORTED, XDP_DROP, XDP_PASS},
    btf_maps::{Array, HashMap, ProgramArray},
    helpers::{bpf_redirect, bpf_xdp_adjust_head},
    macros::{btf_map, xdp},
    programs::XdpContext,
};
use shunt_common::feeder::{Exit, HIDDEN_FLOWS, LENGTH_V4, LENGTH_V6, STATION};

use crate::{Ends, advance, ends, read, write, write_v4, write_v6};

/// The EtherType of IPv4, in network order.
const IPV4: u16 = 0x0800_u16.to_be();

/// That of IPv6.
const IPV6: u16 = 0x86dd_u16.to_be();

/// Offset of the EtherType.
const ETHERTYPE: usize = 12;

/// The first bytes of a frame for the station, from another one; and those that follow, up to the EtherType.
const TO_STATION: u64 = {
    let mut bytes = [0; 8];
    let mut place = 0;
    while place < STATION.len() {
        bytes[place] = STATION[place];
        place += 1;
    }
    u64::from_ne_bytes(bytes)
};
const FROM_NEXT: u32 = u32::from_ne_bytes([0, 0, 0, 2]);

/// Program that is fed at the driver, one entry: a table has programs of one kind.
#[btf_map]
pub(crate) static FED_XDP: ProgramArray<1> = ProgramArray::new();

/// The ports, in network order, by which flows are known whose clients are hidden.
#[btf_map]
pub(crate) static HIDDEN_PORTS: Array<u32, { HIDDEN_FLOWS as usize }> = Array::new();

/// Exits of the bare redirect, by the interface that packets come in by.
#[btf_map]
pub(crate) static EXITS: HashMap<u32, Exit, 16> = HashMap::new();

/// Feeds IPv4 packets. Returns by itself, `XDP_ABORTED`, only if it cannot.
#[xdp]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn feed_xdp_v4(context: XdpContext) -> u32 {
    let Some(plan) = advance() else {
        return XDP_ABORTED;
    };
    let mut between = ends(plan);
    if plan.hidden != 0 {
        let Some(port) = HIDDEN_PORTS.get(plan.flow) else {
            return XDP_ABORTED;
        };
        between = Ends {
            client: plan.hidden,
            port: *port,
            ..between
        };
    }
    let Some((start, end)) = begin(&context, LENGTH_V4, IPV4) else {
        return XDP_ABORTED;
    };
    write_v4(start, end, plan, &between);
    // SAFETY: nothing here is to be dropped.
    unsafe { FED_XDP.tail_call(&context, 0) };
    XDP_ABORTED
}

/// As [`feed_xdp_v4`], IPv6 packets, whose clients are never hidden.
#[xdp]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn feed_xdp_v6(context: XdpContext) -> u32 {
    let Some(plan) = advance() else {
        return XDP_ABORTED;
    };
    let Some((start, end)) = begin(&context, LENGTH_V6, IPV6) else {
        return XDP_ABORTED;
    };
    write_v6(start, end, plan);
    // SAFETY: nothing here is to be dropped.
    unsafe { FED_XDP.tail_call(&context, 0) };
    XDP_ABORTED
}

/// Makes the frame one of this length again, for the station. Returns where it begins and ends.
#[inline(always)]
fn begin(context: &XdpContext, length: usize, ethertype: u16) -> Option<(usize, usize)> {
    // The program that had the packet before may have put it into an envelope. Called whether there is one or not:
    // the call's time is that of feeding.
    let longer = (context.data_end() - context.data()) as i32 - length as i32;
    // SAFETY: the context is the kernel's.
    unsafe { bpf_xdp_adjust_head(context.ctx, longer) };
    let (start, end) = (context.data(), context.data_end());
    if start + ETHERTYPE + 2 > end {
        return None;
    }
    // The program that had the packet before has given it other link addresses.
    // SAFETY: the comparison above.
    unsafe {
        write(start, TO_STATION);
        write(start + 8, FROM_NEXT);
        write(start + ETHERTYPE, ethertype);
    }
    Some((start, end))
}

/// The least that a program can be.
#[xdp]
pub(crate) fn empty_xdp(_context: XdpContext) -> u32 {
    XDP_PASS
}

/// Takes whatever comes.
#[xdp]
pub(crate) fn drop_xdp(_context: XdpContext) -> u32 {
    XDP_DROP
}

/// Sends each IPv4 packet out by the interface and to the next hop that belong to the one by which
/// it came, and leaves it as it is otherwise.
#[xdp]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn bare_redirect(context: XdpContext) -> u32 {
    let start = context.data();
    if start + ETHERTYPE + 2 > context.data_end() {
        return XDP_PASS;
    }
    // SAFETY: the comparison above.
    if unsafe { read::<u16>(start + ETHERTYPE) } != IPV4 {
        return XDP_PASS;
    }
    // SAFETY: the context is the kernel's.
    let interface = unsafe { (*context.ctx).ingress_ifindex };
    // SAFETY: an entry is written before anything comes.
    let Some(exit) = (unsafe { EXITS.get(interface) }) else {
        return XDP_PASS;
    };
    // SAFETY: the comparison above.
    unsafe { write(start, exit.link) };
    // SAFETY: the helper takes any interface index.
    unsafe { bpf_redirect(exit.interface, 0) as u32 }
}
