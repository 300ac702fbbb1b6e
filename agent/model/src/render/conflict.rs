//! Two services that want one frontend.

use std::{fmt, sync::Arc};

use crate::{escaped::Escaped, render::frontend::FrontendKey, service_id::ServiceId};

/// A frontend that a service claims and another holds, because its claim is older.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The frontend.
    pub key: FrontendKey,
    /// The service that has it.
    pub holder: Arc<ServiceId>,
    /// The service that gets it when every older claim is gone.
    pub waiting: Arc<ServiceId>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            holder,
            waiting,
        } = self;
        write!(
            f,
            "service {}: frontend {key} belongs to service {}, whose claim is older",
            Escaped(waiting),
            Escaped(holder),
        )
    }
}
