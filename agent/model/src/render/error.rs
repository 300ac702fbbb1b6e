//! Errors of events that are right by themselves but cannot be rendered.

use std::sync::Arc;

use thiserror::Error;

use crate::{escaped::Escaped, service_id::ServiceId};

/// The reason for the refusal of an event. It had no effect.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum RenderError {
    /// A selection by weight needs the sum as a u32.
    #[error(
        "service {}: backends.{}: the sum of the weights exceeds {max} \
         (local backends count {local_backend_weight} times)",
        Escaped(service),
        Escaped(port),
        max = u32::MAX
    )]
    WeightOverflow {
        /// The service.
        service: Arc<ServiceId>,
        /// The name of its port.
        port: Arc<str>,
        /// The factor of the weights of local backends.
        local_backend_weight: u32,
    },
    /// The event has to wait for the first Resync.
    #[error("no Resync came yet")]
    BeforeResync,
}
