//! Shunt's agent: renderer events in, frontends and backends in the kernel's tables.
//!
//! The wiring of `shunt-model` (events, renderer), `shunt-datapath` (tables, programs) and
//! `shunt-api` (the published interface): [`source`] and [`server`] take events, [`Agent`] has them
//! rendered and published, [`Controller`] answers the requests that come to it, one by one.

#![forbid(unsafe_code)]

mod agent;
mod controller;
mod host;
mod host_addresses;
mod request;
pub mod server;
pub mod source;

pub use agent::{
    Agent, AgentStatus, ApplyError, Difference, FrontendList, InspectError, InspectedFrontend,
    Outcome,
};
pub use controller::Controller;
pub use host::{HostNeeds, HostSettings};
pub use host_addresses::host_addresses;
pub use request::{Answer, Health, Refusal, Request};
