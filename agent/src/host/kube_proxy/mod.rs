//! kube-proxy's rules on this host: which there are, which connections go by them, and their removal.

mod connections;
mod elements;
pub(crate) mod rules;
pub(super) mod tables;
