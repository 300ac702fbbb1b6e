//! The object of the kernel programs: what is set in it before it is loaded, and what it needs.

pub(crate) mod all_tables;
pub(crate) mod aside;
pub(crate) mod constants;
pub(crate) mod copies;
pub(crate) mod definitions;
pub(crate) mod embedded;
pub(crate) mod flow_programs;
pub(crate) mod guard;
pub(crate) mod ipv6_programs;
pub(crate) mod loaded;
pub(crate) mod opened;
pub(crate) mod options;
pub(crate) mod packet_log;
pub(crate) mod pods;
pub(crate) mod programs;
pub(crate) mod reject_limit;
pub(crate) mod remake;
pub(crate) mod requirements;
pub(crate) mod room;
pub(crate) mod sockets;
#[cfg(test)]
mod stack;
pub(crate) mod takeover;
mod task_flags;
pub(crate) mod timeouts;
pub(crate) mod verified;
pub(crate) mod xdp;
