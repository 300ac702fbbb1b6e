//! Network address translation: connections, what becomes of their packets, and source ports.

pub(crate) mod again;
pub(crate) mod approach;
pub(crate) mod conntrack;
pub(crate) mod create;
pub(crate) mod fragments;
pub(crate) mod handover;
pub(crate) mod masquerade;
pub(crate) mod mend;
pub(crate) mod netfilter;
pub(crate) mod open;
pub(crate) mod own_flow;
pub(crate) mod ports;
pub(crate) mod reverse;
pub(crate) mod wanted;
