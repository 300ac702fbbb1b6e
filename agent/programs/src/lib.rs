//! The kernel programs, built for the host: the same source, over tables in memory and a [`World`](aya_ebpf::world)
//! that answers instead of a kernel. So the outcome of a packet can be computed without a packet, a table or a counter
//! of the kernel's being touched.

// The programs' own rooms, see `ebpf/src/main.rs`.
#[path = "../../../ebpf/src/ctx/mod.rs"]
mod ctx;
#[path = "../../../ebpf/src/forward/mod.rs"]
mod forward;
#[path = "../../../ebpf/src/hooks/mod.rs"]
mod hooks;
#[path = "../../../ebpf/src/lb/mod.rs"]
mod lb;
#[path = "../../../ebpf/src/maps/mod.rs"]
mod maps;
#[path = "../../../ebpf/src/nat/mod.rs"]
mod nat;
#[path = "../../../ebpf/src/packet/mod.rs"]
mod packet;
#[path = "../../../ebpf/src/pipeline/mod.rs"]
mod pipeline;
#[path = "../../../ebpf/src/rewrite/mod.rs"]
mod rewrite;
#[path = "../../../ebpf/src/socket/mod.rs"]
mod socket;

// The macros that the programs log through.
extern crate aya_ebpf as aya_log_ebpf;

mod calls;
mod programs;
mod tables;
#[cfg(test)]
mod tests;
mod way;

pub use aya_ebpf::{
    bindings::bpf_fib_lookup as FibLookup,
    table::Entry,
    world::{Answers, Deed, How},
};
pub use calls::{Action, Call, CallOutcome, Remembered, Socket};
pub use programs::{Arrival, Outcome, Programs, SetError, Verdict};
pub use way::{Way, WayQuestion};
