//! Instances of services, as a catalog such as Consul's has them, and their translation: plain
//! values and pure functions, which all sources of instances share.
//!
//! ```text
//! configuration   the frontends of services: the text of a file
//! instance        one instance, as it is registered
//!     v filters, health, address
//! backends        the endpoints of a frontend, and the instances that are left out, and why
//!     v vip: the frontend's address, where the instances have it; kept: for the next agent
//! tier, query     places to look for instances, and the queries for them
//!     v
//! translate       the model's service, from an ordered list of tiers
//!     v
//! engine          one event a changed service
//! ```

mod address;
mod backends;
pub(crate) mod configuration;
pub(crate) mod engine;
mod filters;
pub(crate) mod frontend;
mod gateways;
mod health;
pub(crate) mod instance;
pub(crate) mod kept;
pub(crate) mod place;
pub(crate) mod query;
pub(crate) mod settle;
pub(crate) mod skip;
mod tag;
#[cfg(test)]
mod tests;
pub(crate) mod tier;
pub(crate) mod translate;
pub(crate) mod vip;
