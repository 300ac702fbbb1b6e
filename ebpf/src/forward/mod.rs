//! Sending a packet on past the stack, and telling its sender why it goes no further.

pub(crate) mod fib;
pub(crate) mod hairpin;
pub(crate) mod icmp_error;
pub(crate) mod redirect;
pub(crate) mod transit;
