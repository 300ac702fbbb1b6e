//! The agent follows a Kubernetes API server, in network namespaces with real connections.
//!
//! Every test has a sandbox, a server and an agent of its own. They need root; the agent's binary is
//! `SHUNT_BIN`, or else the newest one that was built in this workspace.

mod answers;
mod beside_kube_proxy;
mod cluster_events;
mod connections;
mod container;
mod controller;
mod drained;
mod dsr;
mod election;
mod external_workloads;
mod health_checks;
mod init;
mod kills;
mod krew;
mod kubectl;
mod local_pods;
mod manifests;
mod nodes;
mod pods;
mod rights;
mod rolling_update;
mod routes;
mod rules;
mod runtime;
mod runtime_spec;
mod server_away;
mod services;
mod shares;
mod tenants;
mod tokens;
mod too_large;
mod unreadable;
mod workload_faults;
mod workload_objects;
mod workload_probes;
mod workload_ranges;
mod world;

use shunt_tests::{objects, route_objects};
