//! Access to a packet and the verdict on it, whatever the program type.

pub mod access;
pub mod tc;
pub mod verdict;
