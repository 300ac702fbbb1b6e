//! State that the programs share with the agent and keep themselves: tables, constants, counters; and
//! the few questions that are answered by a look at them.

pub(crate) mod addresses;
pub(crate) mod atomic;
pub(crate) mod backends;
pub(crate) mod clock;
pub(crate) mod conntrack;
pub(crate) mod constants;
pub(crate) mod counters;
pub(crate) mod dsr;
pub(crate) mod flows;
pub(crate) mod guarded;
pub(crate) mod handover;
pub(crate) mod paths;
// The host has no tail calls.
#[cfg(target_arch = "bpf")]
pub(crate) mod programs;
pub(crate) mod reached;
pub(crate) mod scratch;
pub(crate) mod services;
pub(crate) mod sockets;
pub(crate) mod stations;
pub(crate) mod tables;
pub(crate) mod variables;
