//! What a watch tells.

/// What is new of the objects of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step<T> {
    /// These are all that there are. Never a part of them.
    Listed(Vec<T>),
    /// The object is new, or is in this form now.
    Applied(T),
    /// The object is gone, or is none of those that are asked for any more.
    Deleted(T),
    /// The server answers, and what is known is up to date.
    Alive,
    /// The server does not answer, or not with what is asked for; what is known stays.
    Lost(String),
    /// The server has no objects of this kind to give, and why.
    Absent(String),
}
