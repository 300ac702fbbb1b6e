//! Feeders for the benches: `BPF_PROG_TEST_RUN` repeats a program on what it has left of
//! the packet, so a *feeder* writes the headers of the next packet each time and then tail-calls the
//! program under test, whatever it is. And programs to compare others with.
//!
//! Every load that a program makes is inside one store of the feeder's: fields that lie side by
//! side are written as one word. A load over two stores would wait for both to leave the store
//! buffer, which no packet from a device makes it do.

#![cfg_attr(target_arch = "bpf", no_std, no_main)]

mod floor;
mod lines;
mod socket_floor;
mod xdp;
mod xdp_choice;
mod xdp_floor;
mod xdp_floor_v6;

use aya_ebpf::{
    bindings::{TC_ACT_SHOT, TC_ACT_UNSPEC, bpf_adj_room_mode::BPF_ADJ_ROOM_MAC},
    btf_maps::{Array, ProgramArray},
    helpers::bpf_skb_adjust_room,
    macros::{btf_map, cgroup_sock_addr, classifier},
    programs::{SockAddrContext, TcContext},
};
use shunt_common::feeder::{FIRST_PORT, FLOWS_PER_CLIENT, LENGTH_V4, LENGTH_V6, Plan};
use shunt_object as _;

/// Plan of the packets that are fed.
#[btf_map]
pub static PLAN: Array<Plan, 1> = Array::new();

/// Program that is fed, one entry.
#[btf_map]
pub static FED: ProgramArray<1> = ProgramArray::new();

/// Feeds IPv4 packets. Returns by itself, `TC_ACT_SHOT`, only if it cannot.
#[classifier]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn feed_v4(context: TcContext) -> i32 {
    if let Some(plan) = next(&context) {
        write_v4(context.data(), context.data_end(), plan, &ends(plan));
        // SAFETY: nothing here is to be dropped.
        unsafe { FED.tail_call(&context, 0) };
    }
    TC_ACT_SHOT
}

/// As [`feed_v4`], IPv6 packets.
#[classifier]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn feed_v6(context: TcContext) -> i32 {
    if let Some(plan) = next(&context) {
        write_v6(context.data(), context.data_end(), plan);
        // SAFETY: nothing here is to be dropped.
        unsafe { FED.tail_call(&context, 0) };
    }
    TC_ACT_SHOT
}

/// The least that a program can be.
#[classifier]
pub(crate) fn empty(_context: TcContext) -> i32 {
    TC_ACT_UNSPEC
}

/// The least that a program at `connect` can be, of IPv4 sockets.
#[cgroup_sock_addr(connect4)]
pub(crate) fn empty_connect4(_context: SockAddrContext) -> i32 {
    1
}

/// The same, of IPv6 sockets.
#[cgroup_sock_addr(connect6)]
pub(crate) fn empty_connect6(_context: SockAddrContext) -> i32 {
    1
}

/// The least that a translating program can be: finds the TCP header of an IPv4 packet, and gives
/// it another destination, always the same. Checksums are left as they are.
#[classifier]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn trivial(context: TcContext) -> i32 {
    const ETHERTYPE: usize = 12;
    const NETWORK: usize = 14;
    const PROTOCOL: usize = NETWORK + 9;
    const DESTINATION: usize = NETWORK + 16;
    let start = context.data();
    if start + NETWORK + 20 > context.data_end() {
        return TC_ACT_UNSPEC;
    }
    // SAFETY: the comparison above.
    let (ethertype, version, protocol) = unsafe {
        (
            read::<u16>(start + ETHERTYPE),
            read::<u8>(start + NETWORK),
            read::<u8>(start + PROTOCOL),
        )
    };
    if ethertype != 0x0800_u16.to_be() || version >> 4 != 4 || protocol != 6 {
        return TC_ACT_UNSPEC;
    }
    let transport = NETWORK + usize::from(version & 0xf) * 4;
    if start + transport + 20 > context.data_end() {
        return TC_ACT_UNSPEC;
    }
    // SAFETY: the comparisons above.
    unsafe {
        write(start + DESTINATION, 0x0a01_0103_u32.to_be());
        write(start + transport + 2, 8080_u16.to_be());
    }
    TC_ACT_UNSPEC
}

/// The plan, moved on to the next packet.
#[inline(always)]
fn advance() -> Option<&'static Plan> {
    let plan = PLAN.get_ptr_mut(0)?;
    // SAFETY: one CPU runs this at a time.
    let plan = unsafe { &mut *plan };
    plan.flow += plan.step;
    if plan.flow >= plan.flows {
        plan.flow -= plan.flows;
    }
    plan.service += plan.service_step;
    if plan.service >= plan.services {
        plan.service -= plan.services;
    }
    Some(plan)
}

/// The plan, moved on to the next packet, and room for that.
#[inline(always)]
fn next(context: &TcContext) -> Option<&'static Plan> {
    let plan = advance()?;
    // A program may have made an ICMP error of the packet before: with room for more headers.
    let length = context.len();
    if length > plan.length {
        // SAFETY: the context is the kernel's.
        unsafe {
            bpf_skb_adjust_room(
                context.skb.skb,
                plan.length as i32 - length as i32,
                BPF_ADJ_ROOM_MAC,
                0,
            )
        };
    }
    Some(plan)
}

/// Ends of the packet: the last words of two addresses, and the client's port; in network order.
struct Ends {
    client: u32,
    peer: u32,
    port: u32,
}

#[inline(always)]
fn ends(plan: &Plan) -> Ends {
    let port = FIRST_PORT + plan.flow % FLOWS_PER_CLIENT;
    Ends {
        client: (plan.client + plan.flow / FLOWS_PER_CLIENT).to_be(),
        peer: (plan.peer + plan.service).to_be(),
        port: u32::from((port as u16).to_be()),
    }
}

/// Two words as they are to stand in memory, one after the other.
#[inline(always)]
fn pair(first: u32, second: u32) -> u64 {
    u64::from(first) | u64::from(second) << 32
}

#[inline(always)]
fn write_v4(start: usize, end: usize, plan: &Plan, ends: &Ends) {
    if start + LENGTH_V4 > end {
        return;
    }
    let &Ends { client, peer, port } = ends;
    // What the sum does not depend on the order of.
    let mut sum = plan.sum + (client & 0xffff) + (client >> 16) + (peer & 0xffff) + (peer >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    let hops = plan.hops | (!sum & 0xffff) << 16;
    let (addresses, ports) = if plan.reply == 0 {
        (pair(client, peer), port | plan.peer_port << 16)
    } else {
        (pair(peer, client), plan.peer_port | port << 16)
    };
    let [transport, rest] = plan.transport;
    // SAFETY: the comparison above.
    unsafe {
        write(start + 14, plan.network);
        write(start + 22, hops);
        write(start + 26, addresses);
        write(start + 34, ports);
        write(start + 38, transport);
        write(start + 46, rest);
    }
}

#[inline(always)]
fn write_v6(start: usize, end: usize, plan: &Plan) {
    if start + LENGTH_V6 > end {
        return;
    }
    let Ends { client, peer, port } = ends(plan);
    let address = |[first, second, third]: [u32; 3], last| [pair(first, second), pair(third, last)];
    let client = address(plan.client_prefix, client);
    let peer = address(plan.peer_prefix, peer);
    let ([source, destination], ports) = if plan.reply == 0 {
        ([client, peer], port | plan.peer_port << 16)
    } else {
        ([peer, client], plan.peer_port | port << 16)
    };
    let [transport, rest] = plan.transport;
    // SAFETY: the comparison above.
    unsafe {
        write(start + 14, plan.network);
        write(start + 22, source[0]);
        write(start + 30, source[1]);
        write(start + 38, destination[0]);
        write(start + 46, destination[1]);
        write(start + 54, ports);
        write(start + 58, transport);
        write(start + 66, rest);
    }
}

/// Loads from a packet, in the value's whole width: BPF has no alignment faults on a packet where
/// the machine has none.
///
/// # Safety
///
/// It lies within the packet.
#[inline(always)]
unsafe fn read<T: Copy>(address: usize) -> T {
    // SAFETY: the caller's word.
    unsafe { *core::ptr::with_exposed_provenance(address) }
}

/// Stores into a packet, as [`read`] loads.
///
/// # Safety
///
/// As that of [`read`].
#[inline(always)]
unsafe fn write<T>(address: usize, value: T) {
    // SAFETY: the caller's word.
    unsafe { *core::ptr::with_exposed_provenance_mut(address) = value };
}

/// The host builds this crate only to lint it.
#[cfg(not(target_arch = "bpf"))]
fn main() {}
