//! Two services that want one frontend.

use std::{fmt, sync::Arc};

use crate::{
    escaped::Escaped,
    render::{
        age::{Age, Precedence},
        frontend::FrontendKey,
    },
    service_id::ServiceId,
};

/// A frontend that a service claims and another holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The frontend.
    pub key: FrontendKey,
    /// The service that has it.
    pub holder: Arc<ServiceId>,
    /// The service that gets it when every claim before its own is gone.
    pub waiting: Arc<ServiceId>,
    /// The reason for which the holder has it.
    pub precedence: Precedence,
}

impl Conflict {
    /// Of two services with their claims to a frontend, the holder first.
    pub(super) fn new(
        key: FrontendKey,
        (holder, first): (&Arc<ServiceId>, Age),
        (waiting, second): (&Arc<ServiceId>, Age),
    ) -> Self {
        Self {
            key,
            holder: Arc::clone(holder),
            waiting: Arc::clone(waiting),
            precedence: first.precedence_over(second),
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            holder,
            waiting,
            precedence,
        } = self;
        write!(
            f,
            "service {}: frontend {key} belongs to service {}, {precedence}",
            Escaped(waiting),
            Escaped(holder),
        )
    }
}
