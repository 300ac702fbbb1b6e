//! Calls by gRPC, and the room that they have: connections, streams, and bytes that clients have not taken.

mod body;
mod held;
pub(crate) mod limits;
pub(crate) mod room;
pub(crate) mod server;
