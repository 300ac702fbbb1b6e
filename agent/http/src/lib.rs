//! Listeners of the agent's interfaces: addresses and Unix sockets, and HTTP servers whose listeners are tried
//! until they can be had, and whose connections cannot keep others waiting.

#![forbid(unsafe_code)]

mod accept;
mod address;
mod answer;
mod keep;
mod listen;
mod peer;
mod places;
mod socket_file;
mod stalled;

pub use self::{
    accept::{Answers, Limits, Listening, accept_from},
    address::{ListenError, NotAPlace, ServeAddress, ServeListener},
    answer::{Answer, answer, not_found, text, verdict, with_header},
    keep::{Door, Try},
    peer::Peer,
    places::evictions,
    socket_file::{SocketError, SocketFile},
};
