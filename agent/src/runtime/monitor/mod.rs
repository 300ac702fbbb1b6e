//! What becomes of connections and packets, for those who watch.
//!
//! The kernel programs tell of it only while somebody does: the first who watches has them replaced by ones that tell,
//! the last who leaves has them replaced back.

mod ages;
pub(crate) mod hub;
mod names;
mod packet;
mod teller;
pub(crate) mod watching;
