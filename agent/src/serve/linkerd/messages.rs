//! The messages to a client that follows a destination.

use std::{collections::VecDeque, pin::Pin};

use futures_util::stream::{self, Stream};
use shunt_model::Answer;
use tonic::Status;

use crate::{runtime::lookup::following::Following, serve::grpc::status_code::ending};

/// A stream of messages.
pub(super) type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The messages that `make` makes of each answer, from the current one on. The next answer is looked at
/// when the client has taken all messages of the one before, and is the newest one then: who is slow
/// misses what was in between.
pub(super) fn messages<T: Send + 'static>(
    following: Following,
    make: impl FnMut(&Answer) -> Vec<T> + Send + 'static,
) -> Messages<T> {
    let state = (following, make, VecDeque::new(), true);
    Box::pin(stream::try_unfold(
        state,
        async |(mut following, mut make, mut waiting, mut is_first)| {
            loop {
                if let Some(message) = waiting.pop_front() {
                    return Ok(Some((message, (following, make, waiting, is_first))));
                }
                if !is_first {
                    following.changed().await.map_err(ending)?;
                }
                is_first = false;
                waiting.extend(make(&following.current().answer));
            }
        },
    ))
}
