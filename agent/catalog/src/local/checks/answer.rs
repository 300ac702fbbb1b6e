//! The result of a check's request.

use crate::local::state::status::Status;

/// Status of the checked service by an answer, with its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: Status,
    pub(super) output: String,
}

impl Answer {
    /// It is critical, for this reason.
    pub(super) fn critical(output: String) -> Self {
        Self {
            status: Status::Critical,
            output,
        }
    }
}
