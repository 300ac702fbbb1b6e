//! What a study has given.

use serde::Serialize;

use super::{Better, Limit, Spread};

/// What a study has given.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Results {
    /// The study's name: the suite's and its own.
    pub study: String,
    /// What the figures are.
    pub unit: String,
    /// Which are good.
    pub better: Better,
    /// How many rounds were measured.
    pub rounds: usize,
    /// A row for each figure of each subject.
    pub rows: Vec<Row>,
    /// The bounds, judged.
    pub bounds: Vec<Judged>,
}

/// A figure of a subject.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// The subject.
    pub subject: String,
    /// The figure's name; empty if the subject has only one.
    pub figure: String,
    /// What the subject is compared to.
    pub role: Role,
    /// The figure itself.
    pub value: Spread,
    /// The figure over the baseline's of the same round; `None` if the baseline has none.
    pub ratio: Option<Spread>,
}

/// A subject's part in the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// What all others are compared to.
    Baseline,
    /// The baseline once more: how far it is from 1 is the noise.
    Again,
    /// What is studied.
    Subject,
}

/// A bound, judged.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Judged {
    /// What it is about.
    pub label: String,
    /// The limit.
    pub limit: Limit,
    /// What was found.
    pub value: Spread,
    /// True if the median is within the limit.
    pub met: bool,
}
