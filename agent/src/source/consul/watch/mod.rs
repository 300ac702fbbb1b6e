//! Queries that are followed: what to ask next, what to believe of an answer, and when.

mod cursor;
pub(super) mod hints;
mod pace;
mod rights;
#[cfg(test)]
mod tests;
pub(super) mod told;
pub(super) mod watcher;
