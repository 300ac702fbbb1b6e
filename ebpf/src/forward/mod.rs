//! Sending a packet on past the stack or through it, and reporting to its sender why it goes no further.

pub(crate) mod admission;
pub(crate) mod envelope;
pub(crate) mod fib;
pub(crate) mod hairpin;
pub(crate) mod icmp_error;
pub(crate) mod leaving;
pub(crate) mod loops;
pub(crate) mod next_hop;
pub(crate) mod origin;
pub(crate) mod own;
pub(crate) mod redirect;
pub(crate) mod stack;
pub(crate) mod transit;
