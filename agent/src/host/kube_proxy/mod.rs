//! kube-proxy's rules on this host: which there are, which connections go by them, and their removal.

mod connections;
mod elements;
mod nfnetlink;
pub(crate) mod rules;
mod tables;
