//! What comes of a question.

use crate::source::local::state::status::Status;

/// What an answer says of what was asked.
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
