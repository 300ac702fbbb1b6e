//! Shunt's agent: renderer events in, frontends and backends in the kernel's tables.
//!
//! One way through: [`source`] and [`server`] take events, [`api`] says what an event is,
//! [`renderer`] turns services into frontends, [`datapath`] writes them into the kernel. [`Agent`]
//! joins the last two. [`Controller`] answers the requests that come to it, one by one.

mod agent;
pub mod api;
mod controller;
pub mod datapath;
mod heap;
mod host;
pub mod proto;
pub mod renderer;
mod request;
pub mod server;
pub mod source;

pub use agent::{
    Agent, AgentStatus, ApplyError, Difference, FrontendList, InspectError, InspectedFrontend,
    Outcome,
};
pub use controller::Controller;
pub use host::{HostNeeds, HostSettings};
pub use request::{Answer, Health, Refusal, Request};
