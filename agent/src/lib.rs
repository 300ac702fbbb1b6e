//! Shunt's agent: renderer events in, frontends and backends in the kernel's tables.
//!
//! One way through: [`source`] reads events, [`api`] says what an event is, [`renderer`] turns
//! services into frontends, [`datapath`] writes them into the kernel. [`Agent`] joins the last two.

mod agent;
pub mod api;
pub mod datapath;
pub mod renderer;
pub mod source;

pub use agent::{Agent, ApplyError, Outcome};
