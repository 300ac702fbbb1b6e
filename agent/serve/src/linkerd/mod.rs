//! linkerd's destination API, `io.linkerd.proxy.destination.Destination`, and its [outbound] policies, answered from
//! lookups.
//!
//! A request's [path](authority) becomes a question that is [followed](messages). Each answer becomes
//! the [addresses](addresses) behind it, of which the client gets the [difference](updates), or a
//! [profile]. Clients that follow one question [share](shared) what is made of an answer. `docs/linkerd.md` lists what of linkerd's own server is here, and what is not.

mod addresses;
mod authority;
mod client;
mod destination;
mod follower;
mod hints;
mod messages;
mod metadata;
pub(crate) mod meters;
mod outbound;
mod overrides;
mod profile;
mod requests;
pub(crate) mod server;
pub(crate) mod settings;
mod shared;
mod updates;
mod usable;
