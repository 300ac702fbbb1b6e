//! Gateways of other datacenters, where no Consul replicates them: between agents.
//!
//! ```text
//! own        this datacenter's gateways: registered ones, and frontends that are offered
//!     v push                                    the primary keeps the records of all
//! shared     what is known of all datacenters:  a secondary copies them
//!     ^ pull
//! states     the rules of both: plain values
//! locator    by which addresses a secondary gets to its primary
//! ```
//!
//! A datacenter's record is written in the primary alone. While that is away, everybody keeps the last
//! copy. `docs/federation.md` has the whole.

mod ask;
pub(crate) mod keep;
mod locator;
mod monitor;
pub(crate) mod options;
mod own;
mod pace;
pub(crate) mod record;
pub(crate) mod shared;
pub(crate) mod states;
mod sync;
#[cfg(test)]
mod tests;
pub(crate) mod token;
