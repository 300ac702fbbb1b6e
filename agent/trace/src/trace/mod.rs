//! Running the programs on a packet, and saying in words what they did.

mod answers;
pub(crate) mod connections;
pub(crate) mod error;
mod explain;
pub(crate) mod fib;
mod frame;
mod journey;
mod load;
pub(crate) mod question;
pub(crate) mod run;
pub(crate) mod step;
mod tables;
mod words;
