//! Events of connections and packets, for watchers.
//!
//! The kernel programs report them only while there are watchers: the first one has them replaced by ones that report,
//! the last one that leaves has them replaced back.

mod ages;
pub(crate) mod hub;
mod names;
mod packet;
mod teller;
pub(crate) mod watching;
