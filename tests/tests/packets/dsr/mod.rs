//! Direct server return: the first node hands a client's packets to the backend's node in envelopes,
//! and that node answers the client itself.

mod congestion;
mod driver;
mod mss;
mod nodes;
mod world;
