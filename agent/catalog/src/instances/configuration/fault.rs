//! An error in a part of the text.

use std::ops::Range;

use toml::Spanned;

/// Place of an error, and its text.
pub(super) type Fault = (Range<usize>, String);

/// Returns an error with the place of this value.
pub(super) fn fault<T>(at: &Spanned<T>, what: impl Into<String>) -> Fault {
    (at.span(), what.into())
}
