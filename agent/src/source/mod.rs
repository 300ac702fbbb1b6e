//! Where events come from: lines of JSON in a file or on a stream.

mod error;
mod feed;
mod input;
mod lines;

pub use self::{
    error::{LineError, LineFault},
    feed::feed,
    input::Input,
    lines::{Line, Lines},
};
