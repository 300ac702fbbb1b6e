//! Network address translation: connections, what becomes of their packets, and source ports.

pub(crate) mod conntrack;
pub(crate) mod create;
pub(crate) mod entries;
pub(crate) mod fragments;
pub(crate) mod ports;
pub(crate) mod reverse;
#[cfg(feature = "next-layout")]
#[path = "two_tables.rs"]
mod table;
#[cfg(not(feature = "next-layout"))]
mod table;
