//! The agent follows a Kubernetes API server, in network namespaces with real connections.
//!
//! Every test has a sandbox, a server and an agent of its own. They need root; the agent's binary is
//! `SHUNT_BIN`, or else the newest one that was built in this workspace.

mod answers;
mod cluster_events;
mod container;
mod health_checks;
mod kills;
mod manifests;
mod nodes;
mod objects;
mod rights;
mod rolling_update;
mod server_away;
mod services;
mod tokens;
mod world;
