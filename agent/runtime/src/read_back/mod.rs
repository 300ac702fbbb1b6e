//! The tables read back, each frontend beside what events lead to at that moment.
//!
//! A [reader](reader) beside the event loop has the loop read a few frontends at a time. Whatever waits for the loop
//! comes between two such pieces, so an event waits for one piece at most. Within a piece nothing changes, so a
//! frontend is never compared with what events led to at another time.
//!
//! While there is a reader, the loop logs in a [journal](journal) which frontends events change. At the end a reader of all
//! frontends follows that log, and reads these again, until one piece reaches the end of the log: what it has is what
//! there is at that moment.

pub(crate) mod journal;
pub(crate) mod piece;
pub(crate) mod reader;
#[cfg(test)]
mod tests;
