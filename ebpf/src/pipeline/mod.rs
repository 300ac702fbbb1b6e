//! A packet's way through a program: the fast path, or else parsing, NAT, and on.

pub(crate) mod dsr;
pub(crate) mod egress;
pub(crate) mod entry;
pub(crate) mod fast_path;
pub(crate) mod forward;
pub(crate) mod guard;
pub(crate) mod headers;
pub(crate) mod ingress;
pub(crate) mod leaving;
pub(crate) mod masquerade;
pub(crate) mod opened;
pub(crate) mod program;
pub(crate) mod subprograms;
pub(crate) mod uplink;
