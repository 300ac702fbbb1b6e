//! Direct server return: the first node hands a client's packets to the backend's node in envelopes,
//! and that node answers the client itself.

mod backends_node;
mod congestion;
mod draining;
mod driver;
mod envelopes;
mod forged;
mod mss;
mod nodes;
mod sources;
pub(crate) mod world;
