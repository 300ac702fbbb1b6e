//! The gRPC service at the agent's socket: events in, what is live out, and what an operator does.

mod control;
pub(crate) mod events;
mod filter;
pub(crate) mod inspection;
mod monitor;
pub(crate) mod server;
mod socket;
pub(crate) mod status_code;
