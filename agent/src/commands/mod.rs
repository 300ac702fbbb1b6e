//! The subcommands, one module each.

pub(crate) mod agent;
mod listing;
mod options;
pub(crate) mod render;
mod table;
mod tables;
