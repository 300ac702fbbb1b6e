//! Services of a Consul catalog: followed by blocking queries, and translated by the rules that all
//! sources of instances share.
//!
//! ```text
//! http/       requests: connections, TLS, tokens
//!     v
//! watch/      one task a query: the next request, and the belief in an answer
//!     v  Told: all instances of a service, or the reason that nothing is known of them
//! engine      (instances) one event a changed service
//!     v
//! source      delivers one event after the other, and waits for its outcome
//! ```
//!
//! Beside these: the agent's identity (identity), and addresses that all agents agree on (claims).

mod claims;
mod exports;
mod follow;
pub(crate) mod http;
mod identity;
mod objects;
pub(crate) mod options;
pub(crate) mod source;
mod tiers;
mod watch;
