//! What the agent serves: its socket, and what is asked there.

pub(crate) mod grpc;
pub(crate) mod socket_file;
