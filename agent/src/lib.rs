//! Shunt's agent: renderer events in, frontends and backends in the kernel's tables.
//!
//! The wiring of `shunt-model` (events, renderer), `shunt-runtime` (event loop), `shunt-datapath` (tables, programs)
//! and `shunt-api` (the published interface): a [source](EventSource) delivers events into a queue, the event loop
//! renders and publishes them one by one, a [server](Server) shows what is live.

#![forbid(unsafe_code)]

mod host;

pub use self::host::{
    addresses::host_addresses,
    capabilities::missing_capabilities,
    kernel_settings::{NetfilterConntrack, set_oom_score},
    kube_proxy::rules::{KubeProxyConnections, KubeProxyRules},
    open_files::raise_open_files,
    settings::{HostNeeds, HostSettings},
};
