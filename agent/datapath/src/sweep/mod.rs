//! Sockets without a backend: found by netlink and an iterator; connected anew, or destroyed.

pub(crate) mod bell;
pub(crate) mod covered;
pub(crate) mod destroy;
pub(crate) mod frontends;
pub(crate) mod generations;
pub(crate) mod holders;
pub(crate) mod lost;
pub(crate) mod message;
pub(crate) mod moving;
pub(crate) mod remembered;
pub(crate) mod sock_diag;
pub(crate) mod stale;
pub(crate) mod sweeper;
pub(crate) mod udp;
pub(crate) mod unlisted;
