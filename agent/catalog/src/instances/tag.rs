//! Tags that instances must have, or must not have.

/// A tag that instances must have, or must not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TagRule {
    /// They have it.
    With(Box<str>),
    /// They do not.
    Without(Box<str>),
}

impl TagRule {
    /// As it is written: `!` stands before a tag that they must not have. Upper and lower case are one.
    pub(crate) fn new(text: &str) -> Self {
        let folded = text.to_lowercase();
        match folded.strip_prefix('!') {
            Some(tag) => Self::Without(tag.into()),
            None => Self::With(folded.into()),
        }
    }

    /// Returns whether an instance with these tags keeps to it.
    pub(super) fn holds(&self, tags: &[Box<str>]) -> bool {
        let has = |wanted: &str| tags.iter().any(|tag| tag.to_lowercase() == wanted);
        match self {
            Self::With(tag) => has(tag),
            Self::Without(tag) => !has(tag),
        }
    }
}
