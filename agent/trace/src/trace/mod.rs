//! Running the programs on a packet, and describing in words what they did.

mod answers;
mod call;
pub(crate) mod connections;
pub(crate) mod ends;
pub(crate) mod error;
mod explain;
pub(crate) mod fib;
mod frame;
mod journey;
mod load;
pub(crate) mod question;
mod read;
pub(crate) mod run;
mod stack;
pub(crate) mod step;
mod tables;
mod words;
