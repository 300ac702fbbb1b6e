//! What processes have of the machine.

pub(crate) mod priority;
pub(crate) mod process;
