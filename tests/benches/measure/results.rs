//! Results of a study.

use serde::Serialize;

use super::{Better, Limit, Spread};

/// Results of a study.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Results {
    /// The study's name: the suite's and its own.
    pub study: String,
    /// Unit of the figures.
    pub unit: String,
    /// The direction of better figures.
    pub better: Better,
    /// Number of rounds.
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
    /// The subject's role in the comparison.
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
    /// The subject that all others are compared to.
    Baseline,
    /// The baseline once more: how far it is from 1 is the noise.
    Again,
    /// The subject of the study.
    Subject,
}

/// A bound, judged.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Judged {
    /// The subject of the bound.
    pub label: String,
    /// The limit.
    pub limit: Limit,
    /// The measured value.
    pub value: Spread,
    /// True if the median is within the limit.
    pub met: bool,
}
