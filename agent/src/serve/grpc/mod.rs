//! The gRPC service at the agent's socket: events in, what is live out.

pub(crate) mod events;
pub(crate) mod inspection;
pub(crate) mod server;
pub(crate) mod status_code;
