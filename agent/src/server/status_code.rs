//! Errors as gRPC statuses.

use tonic::{Code, Status};

use shunt_datapath::TableError;
use shunt_model::{EventError, RenderError};

use crate::{
    agent::{ApplyError, inspection::InspectError},
    request::Refusal,
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

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use super::*;
    use shunt_model::{Fault, ServiceId};

    #[test]
    fn a_refusal_has_its_code_and_the_words_of_the_log() {
        let overflow = RenderError::WeightOverflow {
            service: Arc::new(ServiceId::new("default", "web")),
            port: "http".into(),
            local_backend_weight: 2,
        };
        let full = TableError::Full {
            family: "IPv4",
            table: "slots",
            needed: 2,
            free: 1,
            capacity: 8,
            flag: "--max-slots",
        };
        let kernel = TableError::Kernel {
            call: "membarrier",
            source: io::ErrorKind::PermissionDenied.into(),
        };
        for (refusal, code) in [
            (
                Refusal::Event(Fault::MissingField("id").into()),
                Code::InvalidArgument,
            ),
            (Refusal::Apply(overflow.into()), Code::InvalidArgument),
            (
                Refusal::Apply(RenderError::BeforeResync.into()),
                Code::FailedPrecondition,
            ),
            (Refusal::Apply(full.into()), Code::ResourceExhausted),
            (Refusal::Apply(kernel.into()), Code::Internal),
        ] {
            let status = refused(&refusal);
            assert_eq!(status.code(), code, "{refusal}");
            assert_eq!(status.message(), refusal.to_string());
        }
    }
}
