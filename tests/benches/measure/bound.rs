//! Bounds of a study.

use serde::Serialize;

use super::{Judged, Round, Spread};

/// The limit of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    /// It may not be more.
    AtMost(f64),
    /// It may not be less.
    AtLeast(f64),
}

impl Limit {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

/// A function that returns a bound's value in a round.
type Value<'a> = Box<dyn Fn(&Round) -> Option<f64> + 'a>;

/// A value that follows from the figures of a round, and its limit. The median of the rounds is
/// what is judged.
pub(crate) struct Bound<'a> {
    label: String,
    limit: Limit,
    value: Value<'a>,
}

impl<'a> Bound<'a> {
    /// The bound of the result of `value` for a round.
    pub(crate) fn new(
        label: impl Into<String>,
        limit: Limit,
        value: impl Fn(&Round) -> Option<f64> + 'a,
    ) -> Self {
        Self {
            label: label.into(),
            limit,
            value: Box::new(value),
        }
    }

    /// The bound of a subject's figure over the same figure of another.
    pub(crate) fn ratio(
        label: impl Into<String>,
        subject: &'a str,
        other: &'a str,
        figure: &'a str,
        limit: Limit,
    ) -> Self {
        Self::new(label, limit, move |round| {
            Some(round.get(subject, figure)? / round.get(other, figure)?)
        })
    }

    /// The bound of a subject's figure itself.
    pub(crate) fn figure(
        label: impl Into<String>,
        subject: &'a str,
        figure: &'a str,
        limit: Limit,
    ) -> Self {
        Self::new(label, limit, move |round| round.get(subject, figure))
    }

    pub(super) fn judge(&self, rounds: &[Round]) -> Option<Judged> {
        let Self {
            label,
            limit,
            value,
        } = self;
        let values = rounds.iter().map(value).collect::<Option<_>>()?;
        let value = Spread::of(values)?;
        Some(Judged {
            label: label.clone(),
            limit: *limit,
            value,
            met: limit.is_met(value.median),
        })
    }
}
