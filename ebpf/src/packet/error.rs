//! Why a packet could not be read.

use crate::ctx::access::AccessError;

/// Why a packet could not be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParseError {
    /// Its headers go beyond what is there.
    Truncated,
    /// It has more extension headers than are walked.
    TooManyHeaders,
    /// It is something that we do not translate.
    Foreign,
}

impl From<AccessError> for ParseError {
    /// Reading fails only at what is not there.
    #[inline(always)]
    fn from(_: AccessError) -> Self {
        Self::Truncated
    }
}
