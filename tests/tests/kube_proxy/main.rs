//! Flows that were recorded from kube-proxy's own tests: through source and renderer, on the real
//! kernel programs, and, where the client is a process of the node, through the real socket hooks.
//!
//! `SHUNT_CASES` names the folder with `kube-proxy-flows.json`; without it nothing is tested.

mod cases;
mod difference;
mod flows;
mod network;
mod node;
mod programs;
mod report;
mod sockets;
