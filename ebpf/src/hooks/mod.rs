//! Entry points: the only files that name a program type.

pub(crate) mod cgroup;
pub(crate) mod iter;
pub(crate) mod tc;
pub(crate) mod xdp;
