//! The trait of a source of events.

use std::{fmt, io};

use shunt_runtime::EventQueue;

/// A source of events.
///
/// A source delivers events into the queue with an [`Origin`](shunt_runtime::Origin) of its own naming and counting. It may
/// wait for the outcome of each, or leave that to the log. It knows neither the agent nor any other source; the order
/// in which events take effect is that of the queue. Shown (`Display`), it names in the log's words the place that its
/// events come from: `reading events from …`.
pub trait EventSource: fmt::Display {
    /// Handle for the caller that starts it: the end at which events are put in, of a source that
    /// receives them so; nothing, of one that finds them by itself.
    type Handle;

    /// Begins to deliver into `queue`, from a thread or a task of its own.
    ///
    /// # Errors
    ///
    /// If it cannot begin.
    fn start(self, queue: EventQueue) -> io::Result<Self::Handle>;
}
