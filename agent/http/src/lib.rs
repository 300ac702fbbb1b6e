//! Listeners of the agent's interfaces: addresses and Unix sockets, and HTTP servers whose listeners are tried
//! until they can be had, and whose connections cannot keep others waiting.

#![forbid(unsafe_code)]

mod accept;
mod address;
mod answer;
mod attempts;
mod http1;
mod http2;
mod keep;
mod listen;
mod peer;
mod places;
mod preface;
mod protocol;
mod socket_file;
mod stalled;

pub use self::{
    accept::{Limits, Listening, accept_calls, accept_from},
    address::{ListenError, NotAPlace, ServeAddress, ServeListener},
    answer::{Answer, answer, not_found, text, verdict, with_header},
    attempts::{Attempts, refused_tokens},
    http1::Answers,
    http2::{Calls, Streams},
    keep::{Door, Try},
    peer::{Holder, Peer},
    places::evictions,
    socket_file::{SocketError, SocketFile},
};
