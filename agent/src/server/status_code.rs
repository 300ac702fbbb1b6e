//! Errors as gRPC statuses.

use tonic::{Code, Status};

use crate::{
    ApplyError, InspectError, Refusal, api::EventError, datapath::TableError, renderer::RenderError,
};

/// The status of an event that was refused. Its text is the one of an event in a file.
pub(super) fn refused(refusal: &Refusal) -> Status {
    let code = match refusal {
        Refusal::Event(EventError { .. })
        | Refusal::Apply(ApplyError::Render(RenderError::WeightOverflow { .. })) => {
            Code::InvalidArgument
        }
        Refusal::Apply(ApplyError::Render(RenderError::BeforeResync)) => Code::FailedPrecondition,
        Refusal::Apply(ApplyError::Tables(TableError::Kernel { .. })) => Code::Internal,
        Refusal::Apply(ApplyError::Tables(_)) => Code::ResourceExhausted,
    };
    Status::new(code, refusal.to_string())
}

/// The status of an inspection that failed.
pub(super) fn unreadable(error: &InspectError) -> Status {
    Status::internal(error.to_string())
}
