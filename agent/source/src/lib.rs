//! Sources of events: the trait, and those that read lines or take calls.
//!
//! A source knows the queue that takes its events, and nothing else. What a cluster or a catalog has is read by the
//! crates above.

#![forbid(unsafe_code)]

mod event_source;
mod file;
mod reader;
mod retries;
mod socket;

pub use self::{
    event_source::EventSource,
    file::{FileSource, Input},
    reader::read_lines,
    retries::Retries,
    socket::{Calls, SocketSource},
};
