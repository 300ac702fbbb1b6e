//! The cluster's objects, reduced to the fields that are read.
//!
//! An object is decoded from the API server's JSON as it stands, and all fields that are not needed are skipped
//! on the way: a node holds the endpoints of the whole cluster in memory.

pub(crate) mod address;
pub(crate) mod custom;
pub(crate) mod endpoint_slice;
pub(crate) mod external_workload;
#[cfg(test)]
mod external_workload_rules;
#[cfg(test)]
pub(crate) mod external_workload_schema;
pub(crate) mod external_workload_spec;
pub(super) mod interner;
pub(crate) mod labels;
pub(crate) mod lenient;
mod linkerd_proxy;
pub(crate) mod metadata;
mod names;
pub(crate) mod node;
pub(crate) mod null;
pub(super) mod opaque_ports;
pub(super) mod pod;
mod quantity;
pub(crate) mod readiness_probe;
pub(crate) mod reference_grant;
pub(crate) mod route;
pub(crate) mod server;
pub(crate) mod service;
pub(crate) mod service_cidr;
mod service_name;
pub(crate) mod service_profile;
pub(crate) mod traffic_split;
