//! The subcommands, one module each.

mod addresses;
pub(crate) mod agent;
pub(crate) mod apply;
pub(crate) mod cleanup;
mod client;
pub(crate) mod conntrack;
mod listing;
pub(crate) mod lookup;
mod options;
mod output;
pub(crate) mod render;
pub(crate) mod services;
pub(crate) mod status;
mod table;
mod tables;
