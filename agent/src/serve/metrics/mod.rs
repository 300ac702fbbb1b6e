//! Metrics in the form of Prometheus.

mod agent;
mod datapath;
pub(crate) mod endpoint;
mod meters;
mod process;
mod sample;
mod services;
mod text;
