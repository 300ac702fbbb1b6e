//! Lookup of the targets behind an address, asked once or followed.
//!
//! The event loop has the [`Followers`](followers::Followers): after each event it updates the answers of
//! those questions that the event concerns. Each of them is handed on by the
//! [`Relay`](relay::Relay), a thread of its own, to everyone who [follows](following::Following) the
//! question. No follower waits for another: a slow one finds the newest answer.

pub(crate) mod followers;
pub(crate) mod following;
pub(crate) mod observed;
pub(crate) mod relay;
