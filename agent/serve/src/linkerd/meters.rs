//! Meters of the streams that clients follow.

use std::sync::atomic::{AtomicU64, Ordering};

/// Meters of a method's streams.
#[derive(Debug)]
pub(crate) struct StreamMeters {
    /// The method's name in metrics.
    pub(crate) method: &'static str,
    started: AtomicU64,
    ended: AtomicU64,
    messages: AtomicU64,
}

/// Streams of `Get`.
pub(super) static GET: StreamMeters = StreamMeters::new("Get");

/// Streams of `GetProfile`.
pub(super) static GET_PROFILE: StreamMeters = StreamMeters::new("GetProfile");

/// Streams of `Watch`, which are those of outbound policies.
pub(super) static WATCH: StreamMeters = StreamMeters::new("Watch");

/// Returns the meters of all methods.
pub(crate) const fn stream_meters() -> [&'static StreamMeters; 3] {
    [&GET, &GET_PROFILE, &WATCH]
}

/// A stream that is counted as open. Dropped, it is not any more.
#[derive(Debug)]
pub(super) struct Open(&'static StreamMeters);

impl StreamMeters {
    const fn new(method: &'static str) -> Self {
        Self {
            method,
            started: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            messages: AtomicU64::new(0),
        }
    }

    /// Counts a stream that begins.
    pub(super) fn open(&'static self) -> Open {
        self.started.fetch_add(1, Ordering::Relaxed);
        Open(self)
    }

    /// Returns the number of streams that have begun.
    pub(crate) fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Returns the number of streams that are open.
    pub(crate) fn opened(&self) -> u64 {
        // Read first: a stream ends after its beginning.
        let ended = self.ended.load(Ordering::Relaxed);
        self.started().saturating_sub(ended)
    }

    /// Returns the number of messages to clients.
    pub(crate) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }
}

impl Open {
    /// Counts a message to the client.
    pub(super) fn count_message(&self) {
        self.0.messages.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_open_until_it_is_dropped() {
        static METERS: StreamMeters = StreamMeters::new("Test");
        let (one, other) = (METERS.open(), METERS.open());
        one.count_message();
        other.count_message();
        one.count_message();
        let shown = || (METERS.started(), METERS.opened(), METERS.messages());
        assert_eq!(shown(), (2, 2, 3));
        drop(one);
        assert_eq!(shown(), (2, 1, 3));
        drop(other);
        assert_eq!(shown(), (2, 0, 3));
    }
}
