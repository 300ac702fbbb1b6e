//! Access to a packet and the verdict on it, whatever the program type.

pub(crate) mod access;
pub(crate) mod tc;
pub(crate) mod verdict;
