//! Exit statuses.

use std::process::ExitCode;

/// Exit status if the API server does not answer, or there is no agent.
pub(super) const NO_CLUSTER: u8 = 2;

/// Exit status if a node does not answer, is not right, or has nothing of the kind.
const NOT_ALL: u8 = 1;

/// Returns the exit status by whether all is as it was to be.
pub(super) fn exit_status(is_right: bool) -> ExitCode {
    if is_right {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_ALL)
    }
}
