//! Objects that are not as their kinds have them, for tests: each passes through a list and a watch.

pub(crate) mod examples;
pub(crate) mod follow;
pub(crate) mod mutation;
