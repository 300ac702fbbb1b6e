//! The messages to a client that follows a destination.

use std::{pin::Pin, sync::Arc};

use futures_util::{
    TryFutureExt as _,
    stream::{self, Stream},
};
use shunt_runtime::Following;
use tonic::Status;

use crate::{
    grpc::status_code::ending,
    linkerd::{
        meters::{Open, StreamMeters},
        shared::{Made, Shared},
    },
};

/// A stream of messages.
pub(super) type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The messages that are made of each answer, from the current one on. The next answer is looked at
/// when the client has taken all messages of the one before, and is the newest one then: who is slow
/// misses what was in between. The stream begins at once, waits for `following` itself, and is counted by
/// `meters`.
pub(super) fn messages<M: Made>(
    following: impl Future<Output = Result<Following, Status>> + Send + 'static,
    shared: Arc<Shared<M>>,
    meters: &'static StreamMeters,
) -> Messages<M::Message> {
    let open = meters.open();
    let messages = following.map_ok(|following| of_answers(following, shared, open));
    Box::pin(messages.try_flatten_stream())
}

/// A client that follows answers.
struct Client<M: Made> {
    following: Following,
    shared: Arc<Shared<M>>,
    /// The state that its messages have led to; `None`: it has none yet.
    state: Option<Arc<M>>,
    /// The messages to that state, and the number of those that it has taken.
    messages: Option<(Arc<[M::Message]>, usize)>,
    open: Open,
}

fn of_answers<M: Made>(
    following: Following,
    shared: Arc<Shared<M>>,
    open: Open,
) -> impl Stream<Item = Result<M::Message, Status>> + Send {
    let client = Client {
        following,
        shared,
        state: None,
        messages: None,
        open,
    };
    stream::try_unfold(client, async |mut client| {
        loop {
            if let Some((messages, taken)) = &mut client.messages
                && let Some(message) = messages.get(*taken).cloned()
            {
                *taken += 1;
                client.open.count_message();
                return Ok(Some((message, client)));
            }
            // A client that waits keeps its state alone.
            client.messages = None;
            if client.state.is_some() {
                client.following.changed().await.map_err(ending)?;
            }
            let newest = client.shared.of(client.following.current());
            if let Some(end) = newest.end() {
                return Err(end);
            }
            let messages = client.shared.messages(client.state.as_ref(), &newest);
            client.state = Some(newest);
            client.messages = Some((messages, 0));
        }
    })
}
