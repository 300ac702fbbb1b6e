//! Who is behind an address, asked once or followed.
//!
//! The event loop has the [`Followers`](followers::Followers): after each event it gives those questions
//! their new answers that the event concerns. Each of them is handed on by the
//! [`Relay`](relay::Relay), a thread of its own, to everyone who [follows](following::Following) the
//! question. Nobody waits for anybody: who is slow finds the newest answer.

pub(crate) mod followers;
pub(crate) mod following;
pub(crate) mod observed;
pub(crate) mod relay;
