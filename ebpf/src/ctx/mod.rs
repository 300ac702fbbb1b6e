//! Access to a packet and the verdict on it, whatever the program type; and to the address that a
//! system call has.

pub(crate) mod access;
pub(crate) mod sock_addr;
pub(crate) mod tc;
pub(crate) mod verdict;
pub(crate) mod xdp;
