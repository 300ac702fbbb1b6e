//! The flags that say how the agent is to work: their names, their defaults, and what each sets.

pub(crate) mod addresses;
pub(crate) mod apis;
pub(crate) mod cidr;
#[cfg_attr(not(feature = "consul"), path = "no_consul.rs")]
pub(crate) mod consul;
pub(crate) mod detect_local;
pub(crate) mod dsr;
pub(crate) mod duration;
pub(in crate::cli) mod ends;
pub(crate) mod families;
#[cfg(feature = "local-api")]
mod federation;
pub(crate) mod guard;
pub(crate) mod http;
pub(crate) mod interfaces;
pub(crate) mod kubernetes;
#[cfg_attr(not(feature = "linkerd-api"), path = "no_linkerd.rs")]
pub(crate) mod linkerd;
#[cfg_attr(not(feature = "local-api"), path = "no_local_api.rs")]
pub(crate) mod local_api;
pub(crate) mod logging;
pub(crate) mod node;
pub(crate) mod operator;
pub(crate) mod packet_log;
pub(crate) mod paths;
pub(crate) mod selection;
pub(crate) mod services;
pub(crate) mod sizes;
pub(crate) mod snat;
pub(crate) mod sockets;
pub(crate) mod switch;
pub(crate) mod take_over;
pub(crate) mod timeouts;
pub(in crate::cli) mod transport;
mod ui;
pub(crate) mod xdp;
