//! Real clients and servers in network namespaces, through the real agent.
//!
//! Every test has a sandbox and an agent of its own, so they run in parallel. They need root; the
//! agent's binary is `SHUNT_BIN`, or else the newest one that was built in this workspace.

mod agent_gone;
mod apply;
mod attack;
mod bulk;
mod calls;
mod changes;
mod churn;
mod cleanup;
mod command;
mod crashes;
mod direct;
mod dual_stack;
mod errors;
mod floods;
mod flows;
mod foreign_text;
mod full_table;
mod given_ports;
mod grace;
mod hammer;
mod handover;
mod host_world;
mod inspection;
mod interfaces;
mod links;
mod many_interfaces;
mod node_addresses;
mod path_mtu;
mod pinned;
mod ports;
mod redirect;
mod resets;
mod restart;
mod reuse;
mod router;
mod service;
mod snat;
mod snat_udp;
mod sockets;
mod sockets_answers;
mod sockets_choice;
mod sockets_node_port;
mod sockets_pods;
mod sockets_refused;
mod sockets_tcp;
mod sockets_udp;
mod syscalls;
mod time_wait;
mod translation;
mod tun;
mod upgrade;
mod weights;
mod world;
