//! The body of an answer, as its client takes it.

use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use hyper::body::{Body, Bytes, Frame};
use tokio::time::{Sleep, sleep};

use crate::calls::{
    held::{Held, Next},
    room::{CallPlace, PAUSE, Room, StreamPlace},
};

/// The body of an answer. Its messages are made as the client takes them, and while there is room for their bytes.
#[derive(Debug)]
pub(super) struct LimitedBody {
    held: Arc<Held>,
    room: Arc<Room>,
    number: u64,
    /// The time until there may be room.
    wait: Option<Pin<Box<Sleep>>>,
    /// A stream keeps its place also after it has given way: its connection has not forgotten it.
    _stream: Option<StreamPlace>,
}

impl LimitedBody {
    /// That of `body`, whose call has this place in the room.
    pub(super) fn new(body: tonic::body::Body, place: CallPlace, room: Arc<Room>) -> Self {
        let (stream, place) = match place {
            CallPlace::Stream(place) => (Some(place), None),
            CallPlace::Ends(place) => (None, Some(place)),
        };
        let held = Arc::new(Held::new(body, place));
        Self {
            number: room.remember(Arc::clone(&held)),
            held,
            room,
            wait: None,
            _stream: stream,
        }
    }
}

impl Body for LimitedBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    /// The next frame. A connection polls it when it has sent all before it.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Self {
            held, room, wait, ..
        } = &mut *self;
        if let Some(piece) = held.piece() {
            return Poll::Ready(Some(Ok(piece)));
        }
        room.remove(held.taken());
        // A call that ends does not wait for streams.
        while !room.has_bytes() && !held.ends() {
            let limit = wait.get_or_insert_with(|| Box::pin(sleep(PAUSE)));
            ready!(limit.as_mut().poll(context));
            *wait = None;
        }
        Poll::Ready(match ready!(held.poll_next(context)) {
            Next::Frame(frame) => frame.map(|frame| frame.map_err(Into::into)),
            Next::Message(piece, bytes) => {
                room.add(bytes);
                Some(Ok(piece))
            }
            // Clients show this as RESOURCE_EXHAUSTED.
            Next::GaveWay => Some(Err(h2::Error::from(h2::Reason::ENHANCE_YOUR_CALM).into())),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_complete()
    }
}

impl Drop for LimitedBody {
    fn drop(&mut self) {
        self.room.forget(self.number);
        self.room.remove(self.held.end());
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::stream;
    use http_body_util::{BodyExt as _, StreamBody};
    use shunt_http::Peer;

    use super::*;
    use crate::calls::{
        held::PIECE,
        limits::CallLimits,
        room::{PATIENCE, refusals},
    };

    fn room(bytes: usize) -> Arc<Room> {
        Arc::new(Room::new(CallLimits {
            connections: 8,
            streams: 8,
            bytes,
        }))
    }

    /// A stream of messages of this size, without an end.
    fn endless(room: &Arc<Room>, size: usize) -> LimitedBody {
        let place = room.stream(Peer::User(None)).unwrap();
        in_place(room, place, size)
    }

    fn in_place(room: &Arc<Room>, place: CallPlace, size: usize) -> LimitedBody {
        let message = move || Ok::<_, tonic::Status>(Frame::data(Bytes::from(vec![0; size])));
        let messages = StreamBody::new(stream::repeat_with(message));
        LimitedBody::new(tonic::body::Body::new(messages), place, Arc::clone(room))
    }

    async fn next(body: &mut LimitedBody) -> Result<usize, Box<dyn Error + Send + Sync>> {
        let frame = body.frame().await.unwrap()?;
        Ok(frame.into_data().unwrap().len())
    }

    #[tokio::test]
    async fn a_message_comes_in_pieces() {
        let room = room(1 << 20);
        let mut body = endless(&room, 2 * PIECE + 1);
        for expected in [PIECE, PIECE, 1, PIECE] {
            assert_eq!(next(&mut body).await.unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn who_takes_nothing_gives_way_to_others() {
        let room = room(4 * PIECE);
        let before = refusals();
        let (mut unread, mut slow) = (endless(&room, 2 * PIECE), endless(&room, 2 * PIECE));
        next(&mut unread).await.unwrap();
        next(&mut slow).await.unwrap();
        let mut other = endless(&room, PIECE);
        let waits = poll_fn(|context| {
            let polled = Pin::new(&mut other).poll_frame(context);
            Poll::Ready(polled.is_pending())
        });
        assert!(waits.await, "no client was slow for long");
        unread.held.age(2 * PATIENCE);
        assert_eq!(next(&mut other).await.unwrap(), PIECE);
        assert!(refusals() > before);
        let error = next(&mut unread).await.unwrap_err();
        let reset = error.downcast::<h2::Error>().unwrap();
        assert_eq!(reset.reason(), Some(h2::Reason::ENHANCE_YOUR_CALM));
        assert_eq!(next(&mut slow).await.unwrap(), PIECE);
        drop((unread, slow, other));
        assert!(room.has_bytes());
    }

    #[tokio::test]
    async fn a_call_that_ends_does_not_wait_for_streams() {
        let room = room(PIECE);
        let mut unread = endless(&room, 2 * PIECE);
        next(&mut unread).await.unwrap();
        let place = room.answered().await.unwrap();
        let mut command = in_place(&room, place, PIECE);
        let first = poll_fn(|context| {
            let polled = Pin::new(&mut command).poll_frame(context);
            Poll::Ready(polled.is_ready())
        });
        assert!(first.await);
        assert_eq!(next(&mut unread).await.unwrap(), PIECE, "it goes on");
    }
}
