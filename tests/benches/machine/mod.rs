//! Processes' use of the machine, and agents' use of their tables.

pub(crate) mod frontends;
pub(crate) mod priority;
pub(crate) mod process;
pub(crate) mod tables;
