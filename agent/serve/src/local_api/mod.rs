//! The API of Consul's agent, as far as it is about services of this host: registrations and their
//! health, over HTTP.
//!
//! A [connection](server)'s request is refused if a [browser](guard) sends it, or [routed](route) to what
//! reads or changes what is registered. [Shown](shown) is what Consul's agent shows; [reads] are of its [catalog].
//! A [primary] serves the agents of other datacenters besides. `docs/local-api.md` lists what of it is here, and what
//! is not.

mod catalog;
mod federation;
mod guard;
mod health;
mod index;
pub(crate) mod primary;
mod reads;
mod request;
mod route;
pub(crate) mod server;
mod service;
mod shown;
