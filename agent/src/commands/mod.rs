//! The subcommands, one module each.

pub(crate) mod agent;
pub(crate) mod cleanup;
mod listing;
mod options;
pub(crate) mod render;
mod table;
mod tables;
