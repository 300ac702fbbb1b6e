//! Probes of workloads that ask for it: they take connections, or they do not.
//!
//! ```text
//! prober    a task for each such workload, as long as this process leads
//! places    how many are under way at once, in fair shares           pure
//! look      one look: a connection, or a request
//! health    how many looks in a row count: a kubelet's thresholds    pure
//! ```

mod health;
mod look;
pub(crate) mod places;
pub(super) mod prober;
