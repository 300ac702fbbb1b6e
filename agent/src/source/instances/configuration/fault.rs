//! What is wrong with a part of the text.

use std::ops::Range;

use toml::Spanned;

/// Where something stands, and what is wrong with it.
pub(super) type Fault = (Range<usize>, String);

/// What is wrong with what stands here.
pub(super) fn fault<T>(at: &Spanned<T>, what: impl Into<String>) -> Fault {
    (at.span(), what.into())
}
