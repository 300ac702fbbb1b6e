//! Why a list or a watch failed.

use std::{error::Error as _, time::Duration};

use thiserror::Error;

/// Unknown to the server, or with a token of the past (RFC 9110 section 15.5.2).
const UNAUTHORIZED: u16 = 401;

/// Gone, of a version that the server does not know any more (RFC 9110 section 15.5.11).
const GONE: u16 = 410;

/// Why a list or a watch failed.
#[derive(Debug, Error)]
pub(super) enum WatchError {
    /// No connection, or an answer that is an error.
    #[error("{}", in_words(.0))]
    Request(#[from] kube::Error),
    /// The server did not answer in time.
    #[error("no answer within {0:?}")]
    Slow(Duration),
    /// The answer is none.
    #[error("the answer cannot be read: {0}")]
    Decode(#[from] serde_json::Error),
    /// The request cannot be written.
    #[error(transparent)]
    Ask(#[from] kube::core::request::Error),
}

impl WatchError {
    /// Returns whether what was asked to go on is not known any more: everything has to be listed anew.
    pub(super) fn is_gone(&self) -> bool {
        self.code() == Some(GONE)
    }

    /// Returns whether the server does not take the token, or another proof of our identity.
    pub(super) fn is_unauthorized(&self) -> bool {
        self.code() == Some(UNAUTHORIZED)
    }

    /// Returns whether the server has no such objects, or not for us.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self.code(), Some(403 | 404))
    }

    /// Returns whether the server may refuse the version from which the watch goes on, rather than any request: after its
    /// store was restored it may be of the future.
    pub(super) fn may_be_of_version(&self) -> bool {
        self.code()
            .is_some_and(|code| !matches!(code, UNAUTHORIZED | 403 | 404 | 429 | 503))
    }

    /// Returns the time that the server demands to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let Self::Request(kube::Error::Api(status)) = self else {
            return None;
        };
        let seconds = status.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Request(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }
}

/// Returns the error and its causes: the text of kube alone often hides the reason.
fn in_words(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return format!("the server says {}: {}", status.code, status.message);
    }
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        cause = next.source();
    }
    words
}
