//! Following the objects of one kind: a list, then a watch from where the list ends.

pub(super) mod backoff;
pub(super) mod client;
pub(super) mod connector;
pub(super) mod error;
pub(super) mod kind;
pub(super) mod measured;
pub(super) mod page;
pub(super) mod pod_cidrs;
pub(super) mod step;
pub(super) mod watcher;
