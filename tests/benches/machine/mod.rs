//! What processes have of the machine, and agents of their tables.

pub(crate) mod frontends;
pub(crate) mod priority;
pub(crate) mod process;
pub(crate) mod tables;
