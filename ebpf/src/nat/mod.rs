//! Network address translation: connections, what becomes of their packets, and source ports.

pub mod conntrack;
pub mod create;
pub mod entries;
pub mod fragments;
pub mod ports;
pub mod reverse;
#[cfg(feature = "next-layout")]
#[path = "two_tables.rs"]
mod table;
#[cfg(not(feature = "next-layout"))]
mod table;
