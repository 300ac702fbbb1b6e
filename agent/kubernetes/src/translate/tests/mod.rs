//! kube-proxy's rules, each with the cases that pin it.

mod cases;
mod endpoints;
mod frontends;
mod scopes;
mod world;
