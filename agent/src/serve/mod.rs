//! What the agent serves: its socket, and what is asked there; health and metrics over HTTP.

pub(crate) mod grpc;
pub(crate) mod health;
pub(crate) mod http;
pub(crate) mod metrics;
pub(crate) mod socket_file;
