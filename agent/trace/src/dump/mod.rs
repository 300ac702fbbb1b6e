//! The state of a node at one instant, as far as packets depend on it: a *dump*.

pub(crate) mod content;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod hex;
pub(crate) mod record;
pub(crate) mod table;
#[cfg(test)]
mod tests;
