//! Following the objects of one kind: a list, then a watch from where the list ends.

pub(crate) mod backoff;
pub(crate) mod client;
pub(super) mod connector;
pub(crate) mod defined;
pub(super) mod error;
pub(super) mod event;
pub(super) mod item;
pub(crate) mod kind;
pub(super) mod measured;
pub(super) mod page;
pub(super) mod pod_cidrs;
pub(super) mod retry_after;
pub(crate) mod step;
pub(super) mod token;
pub(super) mod unreadable;
pub(crate) mod watcher;
