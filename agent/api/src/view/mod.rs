//! What an agent shows, as values: each is made of its message, becomes its message, and has one
//! form in JSON.

mod connection;
mod error;
mod frontend;
mod listener;
mod maglev;
mod protocol;
mod service_counters;
mod socket_lb;
mod source;
mod stale_sockets;
mod status;
mod take_over;
mod text;
mod unlocated;
mod uplink;

pub use self::{
    connection::{Connection, ConnectionState, End},
    error::Malformed,
    frontend::{Backend, Difference, Frontend, FrontendKey},
    listener::Listener,
    maglev::MaglevTables,
    protocol::ProtocolNumber,
    service_counters::{ServiceCounters, ServiceTraffic},
    socket_lb::{SocketLb, SocketLbMode},
    source::{Source, SourceNode, Untranslated},
    stale_sockets::StaleSockets,
    status::{
        Conflict, FrontendDifference, Interface, InterfaceState, LastError, Status, TableUse,
    },
    take_over::TakeOver,
    unlocated::Unlocated,
    uplink::{Uplink, UplinkState},
};
