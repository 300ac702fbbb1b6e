//! The connections as people see them: who is in the tables, how far they are, how full those are.
//! The programs make room and forget by themselves; nothing here changes anything.

pub(crate) mod connections;
pub(crate) mod crowding;
pub(crate) mod scanner;
pub(crate) mod state;
