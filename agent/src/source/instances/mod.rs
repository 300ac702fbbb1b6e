//! Instances of services, as a catalog such as Consul's has them, and what becomes of them: plain
//! values and pure functions, which all sources of instances share.
//!
//! ```text
//! configuration   which services have which frontends: the text of a file
//! instance        one instance, as it is registered
//!     v filters, health, address
//! backends        the endpoints of a frontend, and who is left out of them, and why
//!     v vip: the frontend's address, where the instances say it; kept: for the next agent
//! tier, query     where instances are looked for, and what is asked for them
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
