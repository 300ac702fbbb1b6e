//! Why something was not written, of whatever kind, and whether it may be at all.

use std::time::Duration;

use thiserror::Error;
use tokio::time::{error::Elapsed, timeout};

use crate::controllers::election::Ballot;

/// Maximum time of one answer.
pub(super) const ANSWER: Duration = Duration::from_secs(10);

/// The server's cause if nothing can be made in a namespace any more.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// Why a write was not done. The later ones are the worse ones.
#[derive(Debug, Error)]
pub(super) enum WriteError {
    /// Nothing can be made in a namespace that is on its way out, or gone.
    #[error("the namespace is being removed")]
    NamespaceTerminating,
    /// Another writer has written the slice, or removed it.
    #[error("the slice has changed meanwhile")]
    Conflict,
    /// The server does not allow it: for want of a right, or of quota.
    #[error("the server forbids it: {0}")]
    Forbidden(String),
    /// The server does not take it.
    #[error("the server does not take it: {0}")]
    Invalid(String),
    /// The server is busy or away.
    #[error("the server is busy or away: {error}")]
    Unavailable {
        /// The server's error.
        error: String,
        /// Time for which it asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// Another controller leads.
    #[error("another controller leads")]
    NotLeading,
}

impl WriteError {
    /// The name of the metrics.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::NamespaceTerminating => "namespace_terminating",
            Self::Conflict => "conflict",
            Self::Forbidden(_) => "forbidden",
            Self::Invalid(_) => "invalid",
            Self::Unavailable { .. } => "unavailable",
            Self::NotLeading => "not_leading",
        }
    }

    /// The worse, the more.
    pub(super) const fn rank(&self) -> u8 {
        match self {
            Self::NamespaceTerminating => 0,
            Self::Conflict => 1,
            Self::Forbidden(_) => 2,
            Self::Invalid(_) => 3,
            Self::Unavailable { .. } => 4,
            Self::NotLeading => 5,
        }
    }

    /// Returns whether nothing else can be written now, either.
    pub(super) const fn is_of_all(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::NotLeading)
    }
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = &error else {
            return Self::Unavailable {
                error: error.to_string(),
                retry_after: None,
            };
        };
        let details = status.details.as_ref();
        let mut causes = details.into_iter().flat_map(|details| &details.causes);
        let is_ending = causes.any(|cause| cause.reason == NAMESPACE_TERMINATING);
        match status.code {
            403 if is_ending => Self::NamespaceTerminating,
            403 => Self::Forbidden(status.message.clone()),
            404 | 409 => Self::Conflict,
            400 | 413 | 415 | 422 => Self::Invalid(status.message.clone()),
            code => Self::Unavailable {
                error: format!("{code} {}", status.message),
                retry_after: retry_after(&error),
            },
        }
    }
}

/// Returns the time for which the server asks to be left alone.
fn retry_after(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

/// There was no answer in time.
pub(super) fn slow() -> WriteError {
    WriteError::Unavailable {
        error: format!("no answer within {ANSWER:?}"),
        retry_after: None,
    }
}

/// Asks whether this controller may write now: before each write, of whatever.
///
/// # Errors
///
/// Another controller leads, or the server does not answer which one does.
pub(super) async fn lead(ballot: &Ballot) -> Result<(), WriteError> {
    permission(timeout(ANSWER, ballot.is_won()).await)
}

/// Returns what follows from the answer about the leader. Any other answer of the server is nothing that the object
/// which was to be written could be blamed for.
fn permission(answer: Result<Result<bool, kube::Error>, Elapsed>) -> Result<(), WriteError> {
    match answer {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(WriteError::NotLeading),
        Ok(Err(error)) => Err(WriteError::Unavailable {
            retry_after: retry_after(&error),
            error: format!("the Lease: {error}"),
        }),
        Err(_) => Err(slow()),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::{Value, json};
    use tokio::runtime::Builder;

    use super::*;

    fn error(code: u16, details: &Value) -> kube::Error {
        let status: Status = serde_json::from_value(json!({
            "status": "Failure", "code": code, "message": "m", "reason": "r", "details": details,
        }))
        .unwrap();
        kube::Error::Api(Box::new(status))
    }

    /// Shows the error's name, and the time that it has to wait.
    fn shown(error: &WriteError) -> (&'static str, Option<u64>) {
        let wait = match error {
            WriteError::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        };
        (error.name(), wait.map(|wait| wait.as_secs()))
    }

    #[test]
    fn each_answer_is_handled_as_what_it_is() {
        let none = json!({});
        let ending = json!({ "causes": [{ "reason": "NamespaceTerminating" }] });
        let wait = json!({ "retryAfterSeconds": 7 });
        for (code, details, expected) in [
            (400, &none, ("invalid", None)),
            (403, &none, ("forbidden", None)),
            (403, &ending, ("namespace_terminating", None)),
            (404, &none, ("conflict", None)),
            (409, &none, ("conflict", None)),
            (413, &none, ("invalid", None)),
            (422, &none, ("invalid", None)),
            (429, &none, ("unavailable", None)),
            (429, &wait, ("unavailable", Some(7))),
            (500, &none, ("unavailable", None)),
            (503, &wait, ("unavailable", Some(7))),
            (504, &none, ("unavailable", None)),
            (401, &none, ("unavailable", None)),
        ] {
            let found = WriteError::from(error(code, details));
            assert_eq!(shown(&found), expected, "{code} {details}");
        }
        let away = kube::Error::Service("it is away".into());
        assert_eq!(shown(&away.into()), ("unavailable", None));
    }

    #[test]
    fn whoever_cannot_read_the_lease_writes_nothing_and_blames_no_object() {
        let none = json!({});
        let wait = json!({ "retryAfterSeconds": 7 });
        for (answer, expected) in [
            (Ok(false), ("not_leading", None)),
            (Err(error(403, &none)), ("unavailable", None)),
            (Err(error(404, &none)), ("unavailable", None)),
            (Err(error(422, &none)), ("unavailable", None)),
            (Err(error(429, &wait)), ("unavailable", Some(7))),
        ] {
            let what = format!("{answer:?}");
            let found = permission(Ok(answer)).unwrap_err();
            assert_eq!(shown(&found), expected, "{what}");
        }
        assert!(permission(Ok(Ok(true))).is_ok());
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let never = std::future::pending::<Result<bool, kube::Error>>();
        let late = runtime.block_on(async { timeout(Duration::ZERO, never).await });
        assert_eq!(shown(&permission(late).unwrap_err()), ("unavailable", None));
    }
}
