//! What the programs share with the agent and keep themselves: tables, constants, counters; and
//! the few questions that are answered by a look at them.

pub mod addresses;
pub mod backends;
pub mod constants;
pub mod counters;
#[cfg(feature = "next-layout")]
pub mod handover;
pub mod scratch;
pub mod tables;
