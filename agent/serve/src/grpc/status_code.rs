//! Errors as gRPC statuses.

use std::fmt::Display;

use shunt_model::{Escaped, RenderError};
use shunt_runtime::{ApplyError, ControlError, Ending, InspectError};
use tonic::{Code, Status};

/// The status of an event that was refused. Its text is the one of an event in a file.
pub(super) fn refused(error: &ApplyError) -> Status {
    let code = match error {
        ApplyError::Event(_) | ApplyError::Render(RenderError::WeightOverflow { .. }) => {
            Code::InvalidArgument
        }
        ApplyError::Render(RenderError::BeforeResync) | ApplyError::Foreign(_) => {
            Code::FailedPrecondition
        }
        ApplyError::Tables(_) if error.is_for_want_of_room() => Code::ResourceExhausted,
        ApplyError::Tables(_) => Code::Internal,
        ApplyError::Removal(_) | ApplyError::Discarded | ApplyError::Replaced => Code::Aborted,
    };
    Status::new(code, Escaped(error).to_string())
}

/// The status of a request whose field with this name makes no sense.
pub(super) fn senseless(field: &str, error: impl Display) -> Status {
    Status::invalid_argument(Escaped(format!("{field}: {error}")).to_string())
}

/// The status of what an operator has asked for in vain.
pub(super) fn not_done(error: &ControlError) -> Status {
    match error {
        ControlError::NoSuchOverride
        | ControlError::NothingHeld
        | ControlError::AnotherHeld { .. } => Status::failed_precondition(error.to_string()),
        ControlError::Apply(error) => refused(error),
        ControlError::Confirmed(_) | ControlError::Keep(_) => {
            Status::internal(Escaped(error).to_string())
        }
    }
}

/// The status of an inspection that failed.
pub(crate) fn unreadable(error: &InspectError) -> Status {
    match error {
        InspectError::Ending(error) => ending(*error),
        InspectError::Tables(_)
        | InspectError::Listing(_)
        | InspectError::Counters(_)
        | InspectError::Connections(_)
        | InspectError::Dump(_)
        | InspectError::Monitor(_)
        | InspectError::Follow(_) => Status::internal(Escaped(error).to_string()),
    }
}

/// The status of whatever is asked while the agent ends.
pub(crate) fn ending(ending: Ending) -> Status {
    Status::unavailable(ending.to_string())
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use shunt_common::registry::Size;
    use shunt_datapath::TableError;
    use shunt_model::{EventError, Fault, ServiceId};

    use super::*;

    #[test]
    fn an_error_has_its_code_and_the_words_of_the_log() {
        let overflow = RenderError::WeightOverflow {
            service: Arc::new(ServiceId::new("default", "web")),
            port: "http".into(),
            local_backend_weight: 2,
        };
        let full = TableError::Full {
            family: "IPv4",
            table: Size::Slots,
            needed: 2,
            free: 1,
            capacity: 8,
        };
        let kernel = TableError::Kernel {
            call: "membarrier",
            source: io::ErrorKind::PermissionDenied.into(),
        };
        let cases: [(ApplyError, Code); 6] = [
            (
                EventError::new(Fault::MissingField("id")).into(),
                Code::InvalidArgument,
            ),
            (overflow.into(), Code::InvalidArgument),
            (RenderError::BeforeResync.into(), Code::FailedPrecondition),
            (
                ApplyError::Foreign("following Kubernetes".to_owned()),
                Code::FailedPrecondition,
            ),
            (full.into(), Code::ResourceExhausted),
            (kernel.into(), Code::Internal),
        ];
        for (error, code) in cases {
            let status = refused(&error);
            assert_eq!(status.code(), code, "{error}");
            assert_eq!(status.message(), error.to_string());
        }
    }

    #[test]
    fn text_of_the_caller_is_escaped() {
        let overflow = RenderError::WeightOverflow {
            service: Arc::new(ServiceId::new("default", "\u{202e}bew")),
            port: "a\nb".into(),
            local_backend_weight: 1,
        };
        let kernel = TableError::Kernel {
            call: "membarrier",
            source: io::Error::other("\u{1b}[2J"),
        };
        for (error, part) in [
            (
                overflow.into(),
                r"service default/\u{202e}bew: backends.a\nb: the sum",
            ),
            (kernel.into(), r"\u{1b}[2J"),
        ] {
            let status = refused(&error);
            assert!(status.message().contains(part), "{status}");
        }
    }
}
