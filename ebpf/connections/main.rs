//! The connection table beside the kernel's hash: programs that look connections up and open them
//! in either, one a run, without packets around them. Never in the agent.

#![cfg_attr(target_arch = "bpf", no_std, no_main, feature(asm_experimental_arch))]

mod hash;
mod memory;

use aya_ebpf::{
    Global,
    bindings::TC_ACT_UNSPEC,
    btf_maps::Array,
    macros::{btf_map, classifier},
    programs::TcContext,
};
use shunt_common::{
    Direction, TCP, Tuple, V4, V6,
    connections::{
        Connection, Key, Memory, Meta, Role, Seeds, Signal, Table, Timeouts, Wide, bench_plan::Plan,
    },
};

use shunt_object as _;

use crate::{
    hash::Hashed,
    memory::{SlotsV4, SlotsV6},
};

/// How many flows each client has, by its ports.
const FLOWS_PER_CLIENT: u32 = 4096;

/// What is to be done.
#[btf_map]
pub static PLAN: Array<Plan, 1> = Array::new();

/// How many homes the tables have.
#[unsafe(no_mangle)]
pub static HOMES: Global<u32> = Global::new(786_432);

static SEEDS: Seeds = Seeds([
    0x9e37_79b9,
    0x7f4a_7c15,
    0xf39c_c060,
    0x5ced_c834,
    0x1082_276b,
    0xf3a2_7251,
    0xf86c_6a11,
    0xd0c1_8e95,
    0x2767_f0b1,
    0x53d2_04c5,
]);

static TIMEOUTS: Timeouts = Timeouts::linux(4);

/// A family with its table, and the tuples of flows.
trait Tracked: Hashed {
    type Memory: Memory<Family = Self>;
    fn table() -> Table<'static, Self::Memory>;
    fn address(last: u32) -> Self::Address;
}

impl Tracked for V4 {
    type Memory = SlotsV4;

    #[inline(always)]
    fn table() -> Table<'static, SlotsV4> {
        Table::new(SlotsV4, HOMES.load(), &SEEDS, &TIMEOUTS)
    }

    #[inline(always)]
    fn address(last: u32) -> u32 {
        last.to_be()
    }
}

impl Tracked for V6 {
    type Memory = SlotsV6;

    #[inline(always)]
    fn table() -> Table<'static, SlotsV6> {
        Table::new(SlotsV6, HOMES.load(), &SEEDS, &TIMEOUTS)
    }

    #[inline(always)]
    fn address(last: u32) -> [u32; 4] {
        [0xfd00_u32.to_be(), 0, 7, last.to_be()]
    }
}

/// The plan, moved on to the next flow.
#[inline(always)]
fn next() -> Option<&'static mut Plan> {
    let plan = PLAN.get_ptr_mut(0)?;
    // SAFETY: one CPU runs this at a time; where two do, flows are only taken in another order.
    let plan = unsafe { &mut *plan };
    let mut flow = plan.flow + plan.step;
    if flow >= plan.flows {
        flow -= plan.flows;
    }
    plan.flow = flow;
    Some(plan)
}

/// The tuple of the flow's packets from the client: to a frontend, or as they go on.
#[inline(always)]
fn tuple<F: Tracked>(plan: &Plan, peer: u32, peer_port: u16) -> Tuple<F> {
    let flow = plan.first + plan.flow;
    Tuple {
        source: F::address(0x0a80_0000 + flow / FLOWS_PER_CLIENT),
        destination: F::address(peer),
        source_port: (20_480 + (flow % FLOWS_PER_CLIENT) as u16).to_be(),
        destination_port: peer_port.to_be(),
    }
}

#[inline(always)]
fn client<F: Tracked>(plan: &Plan) -> Tuple<F> {
    tuple(plan, 0x0a60_0001, 80)
}

#[inline(always)]
fn translated<F: Tracked>(plan: &Plan) -> Tuple<F> {
    tuple(plan, 0x0a01_0103, 8080)
}

#[inline(always)]
fn connection<F: Tracked>(plan: &Plan) -> Connection<F> {
    Connection {
        client: client(plan),
        translated: translated(plan),
        protocol: plan.protocol as u8,
        seen: if plan.protocol == u32::from(TCP) {
            Meta::OPENED
        } else {
            0
        },
        generation: 1,
        backend: 1,
        service: 1,
    }
}

/// Notes how it went.
#[inline(always)]
fn done(plan: &mut Plan, sink: Option<u64>) {
    match sink {
        Some(sink) => {
            plan.done += 1;
            plan.sink = sink;
        }
        None => plan.failed += 1,
    }
}

/// What is left of a tuple for the sink.
#[inline(always)]
fn digest<F: Wide>(tuple: &Tuple<F>) -> u64 {
    let addresses = F::pack(tuple.source, tuple.destination);
    let sum = F::words(&addresses).iter().fold(0, |sum, word| sum ^ word);
    sum ^ u64::from(tuple.port_word())
}

/// Nothing but the tuple.
#[inline(always)]
fn idle<F: Tracked>(role: Role) {
    let Some(plan) = next() else { return };
    let tuple = packet::<F>(plan, role);
    done(plan, Some(digest(&tuple)));
}

#[inline(always)]
fn packet<F: Tracked>(plan: &Plan, role: Role) -> Tuple<F> {
    match role {
        Role::Forward => client(plan),
        Role::Reply => translated(plan).reversed(),
    }
}

#[inline(always)]
fn hash_find<F: Tracked>(role: Role) {
    let Some(plan) = next() else { return };
    let direction = match role {
        Role::Forward => Direction::Original,
        Role::Reply => Direction::Reply,
    };
    let tuple = packet::<F>(plan, role);
    let entry = hash::find(&tuple, plan.protocol as u8, direction, plan.now);
    done(plan, entry.map(|entry| digest(&entry.translated)));
}

#[inline(always)]
fn table_find<F: Tracked>(role: Role) {
    let Some(plan) = next() else { return };
    let table = F::table();
    let key = Key::<F>::new(&packet::<F>(plan, role), plan.protocol as u8, role);
    let hit = table.lookup(&key, plan.now);
    if let Some(hit) = &hit {
        table.observe(hit, Signal::Data, plan.now);
    }
    done(plan, hit.map(|hit| digest(&hit.translated())));
}

#[inline(always)]
fn hash_open<F: Tracked>() {
    let Some(plan) = next() else { return };
    let new = connection::<F>(plan);
    let known = hash::find(&new.client, new.protocol, Direction::Original, plan.now);
    let opened = known.is_none() && hash::open(&new, plan.now);
    done(plan, opened.then_some(0));
}

#[inline(always)]
fn table_open<F: Tracked>() {
    let Some(plan) = next() else { return };
    let new = connection::<F>(plan);
    let table = F::table();
    let known = table.lookup(&new.forward_key(), plan.now);
    let opened = known.is_none() && table.open(&new, plan.now).is_ok();
    done(plan, opened.then_some(0));
}

/// The handshake after a connection's SYN.
#[inline(always)]
fn table_establish<F: Tracked>() {
    let Some(plan) = next() else { return };
    let new = connection::<F>(plan);
    let table = F::table();
    let mut answered = None;
    if let Some(hit) = table.lookup(&new.reply_key(), plan.now) {
        table.observe(&hit, Signal::Answer(5), plan.now);
        answered = Some(0);
    }
    if let Some(hit) = table.lookup(&new.forward_key(), plan.now) {
        table.observe(&hit, Signal::Acknowledge(5), plan.now);
    }
    done(plan, answered);
}

/// Declares a family's programs.
macro_rules! programs {
    ($family:ty: $($name:ident => $body:expr,)*) => {
        $(
            #[doc = "One of the programs; see its body."]
            #[classifier]
            pub(crate) fn $name(_context: TcContext) -> i32 {
                $body;
                TC_ACT_UNSPEC
            }
        )*
    };
}

programs! { V4:
    idle_v4 => idle::<V4>(Role::Forward),
    hash_request_v4 => hash_find::<V4>(Role::Forward),
    table_request_v4 => table_find::<V4>(Role::Forward),
    hash_reply_v4 => hash_find::<V4>(Role::Reply),
    table_reply_v4 => table_find::<V4>(Role::Reply),
    hash_open_v4 => hash_open::<V4>(),
    table_open_v4 => table_open::<V4>(),
    table_establish_v4 => table_establish::<V4>(),
}

programs! { V6:
    idle_v6 => idle::<V6>(Role::Forward),
    hash_request_v6 => hash_find::<V6>(Role::Forward),
    table_request_v6 => table_find::<V6>(Role::Forward),
    hash_open_v6 => hash_open::<V6>(),
    table_open_v6 => table_open::<V6>(),
    table_establish_v6 => table_establish::<V6>(),
}

/// The host builds this crate only to lint it.
#[cfg(not(target_arch = "bpf"))]
fn main() {}
