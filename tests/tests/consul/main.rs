//! The agent follows the real Consul, in network namespaces with real connections.
//!
//! Every test has a sandbox, a Consul and an agent of its own. They need root, and the Consul that `cargo
//! xtask setup` fetches; the agent's binary is `SHUNT_BIN`, or else the newest one that was built in
//! this workspace.

mod addresses;
mod away_at_start;
mod catalog;
mod connections;
mod datacenters;
mod joined;
mod leader;
mod mesh;
mod model;
mod nearest;
mod read_again;
mod relay;
mod resolver;
mod restored;
mod rights;
mod server_away;
mod tls;
mod wan_federation;
mod world;
