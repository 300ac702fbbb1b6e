//! Queries that are followed: what to ask next, what to believe of an answer, and when.

mod cursor;
pub(super) mod hinted;
pub(super) mod hints;
pub(super) mod leader;
pub(super) mod pace;
pub(super) mod path;
mod rights;
#[cfg(test)]
mod tests;
pub(super) mod told;
pub(super) mod watcher;
