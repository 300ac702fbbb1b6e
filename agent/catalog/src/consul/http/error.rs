//! Why a question to Consul has no answer.

use std::time::Duration;

use thiserror::Error;

/// Number of characters of Consul's error text that are shown.
const SHOWN: usize = 200;

/// Reason that a question has no answer that can be believed. None of them is a fact about a service.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(in crate::consul) enum AskError {
    /// No connection, or one that broke.
    #[error("{0}")]
    Unreachable(String),
    /// Nothing came in time.
    #[error("no answer within {0:?}")]
    Slow(Duration),
    /// All connections were in use for so long.
    #[error("no connection was free within {0:?}")]
    Crowded(Duration),
    /// An answer that is an error.
    #[error("Consul says {code}: {text}")]
    Status {
        /// HTTP's status.
        code: u16,
        /// Text of the answer.
        text: String,
    },
    /// An answer that is none.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
}

impl AskError {
    /// Of an answer of this status.
    pub(super) fn status(code: u16, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let text: String = text.trim().chars().take(SHOWN).collect();
        Self::Status {
            code,
            text: if text.is_empty() {
                "nothing more".to_owned()
            } else {
                text
            },
        }
    }

    /// HTTP's status, if there was one.
    pub(in crate::consul) const fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            Self::Unreachable(_) | Self::Slow(_) | Self::Crowded(_) | Self::Unreadable(_) => None,
        }
    }

    /// Returns whether the agent itself was not there: its checks may know nothing yet when it is back.
    pub(in crate::consul) const fn is_lost_contact(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Slow(_))
    }

    /// Returns its name in metrics.
    pub(in crate::consul) const fn name(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Slow(_) => "slow",
            Self::Crowded(_) => "crowded",
            Self::Status { code: 403, .. } => "forbidden",
            Self::Status { .. } => "status",
            Self::Unreadable(_) => "unreadable",
        }
    }
}
