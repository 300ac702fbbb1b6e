//! Values that are text in JSON.

use std::fmt::Display;

use serde::{Serialize as _, Serializer};

/// As it is shown.
pub(super) fn shown<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// As it is shown, or `null`.
#[expect(clippy::ref_option, reason = "serde calls it so")]
pub(super) fn shown_or_null<S: Serializer>(
    value: &Option<impl Display>,
    to: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().map(ToString::to_string).serialize(to)
}
