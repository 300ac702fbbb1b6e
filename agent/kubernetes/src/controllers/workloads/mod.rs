//! Workloads outside the cluster become endpoints of the Services that select them.
//!
//! ```text
//! watch       ExternalWorkloads, Services, and our own EndpointSlices
//!     v
//! store       what is known, and which Services a change concerns
//!             (tracker: what was written here, so that nothing older is believed;
//! early: the watch's reports on it before it is confirmed)
//!     v  queue: each Service once, again after a while if it fails
//! desired     the endpoints that a Service is to have            pure
//!             (candidate: a workload, and the endpoints that it is)
//! packing     which slice has which; order: none is missing      pure
//!     v
//! writer      one write after the other, as long as this process leads
//! ```
//!
//! `allowed` knows which addresses are the cluster's own: a workload that has one is left out, and not looked at.
//!
//! Beside it, `probes` looks whether workloads are ready that ask for it, and `verdicts` has what is wrong
//! with some: both become `conditions`, which `status` writes.

pub(crate) mod allowed;
mod candidate;
mod conditions;
mod desired;
mod early;
mod events;
pub(crate) mod options;
mod order;
mod packing;
pub(crate) mod probes;
mod queue;
mod raw_slice;
mod service;
mod slice;
mod status;
mod store;
#[cfg(test)]
mod tests;
mod tracker;
mod verdicts;
pub(super) mod work;
mod write;
mod write_error;
mod writer;
