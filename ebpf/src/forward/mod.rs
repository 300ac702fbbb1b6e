//! Sending a packet on past the stack, and telling its sender why it goes no further.

pub mod fib;
pub mod hairpin;
pub mod icmp_error;
pub mod redirect;
pub mod transit;
