//! Values that have a name in JSON.

/// A value out of a fixed list, each of which has a name.
pub trait FromName: Sized {
    /// All names, as an error lists them: `` `TCP`, `UDP` or `SCTP` ``.
    const EXPECTED: &'static str;

    /// The value of that name; upper and lower case differ.
    fn from_name(name: &str) -> Option<Self>;
}
