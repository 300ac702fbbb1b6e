//! The messages to a client that follows a destination.

use std::{collections::VecDeque, pin::Pin};

use futures_util::{
    TryFutureExt as _,
    stream::{self, Stream},
};
use shunt_model::Answer;
use shunt_runtime::Following;
use tonic::Status;

use crate::grpc::status_code::ending;

/// A stream of messages.
pub(super) type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The messages that `make` makes of each answer, from the current one on. The next answer is looked at
/// when the client has taken all messages of the one before, and is the newest one then: who is slow
/// misses what was in between. The stream begins at once, and waits for `following` itself.
pub(super) fn messages<T: Send + 'static>(
    following: impl Future<Output = Result<Following, Status>> + Send + 'static,
    make: impl FnMut(&Answer) -> Vec<T> + Send + 'static,
) -> Messages<T> {
    let messages = following.map_ok(|following| of_answers(following, make));
    Box::pin(messages.try_flatten_stream())
}

fn of_answers<T: Send + 'static>(
    following: Following,
    make: impl FnMut(&Answer) -> Vec<T> + Send + 'static,
) -> impl Stream<Item = Result<T, Status>> + Send {
    let state = (following, make, VecDeque::new(), true);
    stream::try_unfold(
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
    )
}
