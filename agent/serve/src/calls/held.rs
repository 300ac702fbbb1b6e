//! An answer that its client has not taken yet.

use std::{
    mem,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Instant,
};

use hyper::body::{Body as _, Bytes, Frame};
use tokio::sync::OwnedSemaphorePermit;
use tonic::{Status, body::Body};

/// Number of bytes of a message that the connection gets at once: they stay with it if the client takes no more.
pub(super) const PIECE: usize = 4 << 10;

/// An answer that is not complete.
#[derive(Debug)]
pub(super) struct Held {
    /// True if it ends by itself.
    ends: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None`: it has given way to others.
    body: Option<Body>,
    /// The rest of a message.
    rest: Bytes,
    /// Number of bytes of a message of which the client has not taken all.
    bytes: usize,
    /// Time at which the client took something.
    since: Instant,
    /// The place of an answer that ends.
    place: Option<OwnedSemaphorePermit>,
}

/// The next frame of an answer.
#[derive(Debug)]
pub(super) enum Next {
    /// A frame, or `None` at the end.
    Frame(Option<Result<Frame<Bytes>, Status>>),
    /// The first frame of a message with this number of bytes.
    Message(Frame<Bytes>, usize),
    /// None comes any more: it has given way to others.
    GaveWay,
}

impl Held {
    /// That of `body`, which has a place if it ends by itself.
    pub(super) fn new(body: Body, place: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            ends: place.is_some(),
            state: Mutex::new(State {
                body: Some(body),
                rest: Bytes::new(),
                bytes: 0,
                since: Instant::now(),
                place,
            }),
        }
    }

    /// Returns whether it ends by itself.
    pub(super) const fn ends(&self) -> bool {
        self.ends
    }

    /// Returns the time from which on it has waited for its client; `None` if it does not.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.bytes > 0).then_some(state.since)
    }

    /// Ends it, and drops what its client has not taken; returns the number of its bytes.
    pub(super) fn end(&self) -> usize {
        let mut state = self.state();
        state.body = None;
        state.rest = Bytes::new();
        drop(state.place.take());
        mem::take(&mut state.bytes)
    }

    /// Returns the next piece of the current message, if there is one.
    pub(super) fn piece(&self) -> Option<Frame<Bytes>> {
        self.state().piece()
    }

    /// Ends the current message, which the client has taken; returns the number of its bytes.
    pub(super) fn taken(&self) -> usize {
        mem::take(&mut self.state().bytes)
    }

    /// Makes the next message, after the current one.
    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Next> {
        let mut state = self.state();
        let Some(body) = &mut state.body else {
            return Poll::Ready(Next::GaveWay);
        };
        let frame = match ready!(Pin::new(body).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            ended => return Poll::Ready(Next::Frame(ended)),
        };
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => return Poll::Ready(Next::Frame(Some(Ok(frame)))),
        };
        let bytes = data.len();
        state.bytes = bytes;
        state.rest = data;
        let piece = state.piece().unwrap_or_else(|| Frame::data(Bytes::new()));
        Poll::Ready(Next::Message(piece, bytes))
    }

    /// Returns whether nothing comes any more.
    pub(super) fn is_complete(&self) -> bool {
        let state = self.state();
        let has_ended = state.body.as_ref().is_some_and(Body::is_end_stream);
        has_ended && state.rest.is_empty()
    }

    /// Lets this time of its client go by.
    #[cfg(test)]
    pub(super) fn age(&self, time: std::time::Duration) {
        self.state().since -= time;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The next piece of a message.
    fn piece(&mut self) -> Option<Frame<Bytes>> {
        if self.rest.is_empty() {
            return None;
        }
        self.since = Instant::now();
        if self.rest.len() <= PIECE {
            return Some(Frame::data(mem::take(&mut self.rest)));
        }
        // A copy, so that the message does not stay for the sake of its piece.
        Some(Frame::data(Bytes::copy_from_slice(
            &self.rest.split_to(PIECE),
        )))
    }
}
