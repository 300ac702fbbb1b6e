//! An answer and when it was given.

use shunt_model::Answer;

/// An answer with the state of the renderer that it was given by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// Counts the events that took effect since the agent's start, each of which leads to another
    /// state. 0: no Resync came yet, and nothing is known, which is not the same as nothing being there.
    pub generation: u64,
    /// The answer at that time.
    pub answer: Answer,
}
