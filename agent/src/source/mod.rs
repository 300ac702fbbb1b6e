//! Where events come from: lines of JSON in a file or on a stream.

mod feed;
mod input;

pub use self::{feed::feed, input::Input};
