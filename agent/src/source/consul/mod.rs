//! Services of a Consul catalog: followed by blocking queries, and translated by the rules that all
//! sources of instances share.
//!
//! ```text
//! http/       requests: connections, TLS, tokens
//!     v
//! watch/      one task a query: what to ask next, and what to believe of an answer
//!     v  Told: all instances of a service, or why nothing is known of them
//! engine      (source/instances) one event a changed service
//!     v
//! source      delivers one event after the other, and waits for what becomes of it
//! ```
//!
//! Beside these: who the agent is (identity), and addresses that all agents agree on (claims).

mod claims;
mod exports;
mod follow;
mod http;
mod identity;
mod objects;
mod options;
mod source;
mod tiers;
mod watch;

pub use self::{
    http::address::{ConsulAddress, NotAnAddress},
    options::{ConsulOptions, Environment, OptionsError},
    source::ConsulSource,
};
