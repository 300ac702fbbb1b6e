//! Sockets whose backend is gone: found by netlink, a batch at a time, and destroyed.

pub(crate) mod bell;
pub(crate) mod generations;
pub(crate) mod message;
pub(crate) mod sock_diag;
pub(crate) mod stale;
pub(crate) mod sweeper;
