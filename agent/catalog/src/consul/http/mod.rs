//! Requests to a Consul agent.

pub(crate) mod address;
pub(super) mod client;
mod connector;
pub(super) mod error;
pub(super) mod life;
pub(super) mod tls;
pub(super) mod token;
