//! The watches of what workloads are judged by, besides Services.

use crate::links::Link;

/// The state of these watches.
#[derive(Debug, Default)]
pub(super) struct JudgeLinks {
    pub(super) nodes: Link,
    pub(super) service_cidrs: Link,
    pub(super) api_server: Link,
}

impl JudgeLinks {
    /// Returns true if everything was listed once, or cannot be had.
    pub(super) const fn are_complete(&self) -> bool {
        let Self {
            nodes,
            service_cidrs,
            api_server,
        } = self;
        nodes.is_complete && service_cidrs.is_complete && api_server.is_complete
    }
}
