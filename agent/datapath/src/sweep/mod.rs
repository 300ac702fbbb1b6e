//! Sockets whose backend is gone: found by netlink and an iterator, and destroyed, a batch at a time.

pub(crate) mod bell;
pub(crate) mod generations;
pub(crate) mod message;
pub(crate) mod remembered;
pub(crate) mod sock_diag;
pub(crate) mod stale;
pub(crate) mod sweeper;
pub(crate) mod unlisted;
