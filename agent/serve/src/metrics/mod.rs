//! Metrics in the form of Prometheus.

mod agent;
mod consul;
mod datapath;
pub(crate) mod endpoint;
mod local;
pub(crate) mod meters;
pub(crate) mod process;
pub(crate) mod process_use;
mod sample;
mod services;
pub(crate) mod text;
