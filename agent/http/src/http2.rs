//! Connections of HTTP/2.

use std::{
    convert::Infallible,
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use hyper::{
    Request, Response,
    body::{Body, Bytes, Frame, Incoming, SizeHint},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    peer::Peer,
    places::{Busy, Place},
    preface::Preface,
    protocol::Protocol,
    stalled::Stalled,
};

/// Something that answers calls, whose answers may be streams.
pub trait Calls: Send + Sync + 'static {
    /// The body of an answer. Dropped, the call has ended.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static;

    /// Returns the answer to a call of `peer`.
    fn call(
        &self,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// The streams of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Streams {
    /// Maximum number of streams at once. A client keeps other calls back.
    pub number: u32,
    /// Maximum number of bytes of a stream that wait for the socket, beside one frame.
    pub send_buffer: usize,
    /// Time that a client may be silent until a ping asks for an answer.
    pub keep_alive: Option<Duration>,
}

/// HTTP/2 without an upgrade from HTTP/1.1.
pub(crate) struct Http2<C> {
    calls: Arc<C>,
    streams: Streams,
    /// Maximum time until a client has sent its preface.
    patience: Duration,
}

impl<C> Http2<C> {
    pub(crate) const fn new(calls: Arc<C>, streams: Streams, patience: Duration) -> Self {
        Self {
            calls,
            streams,
            patience,
        }
    }
}

impl<C: Calls> Protocol for Http2<C> {
    async fn serve<S>(&self, stream: S, peer: Peer, place: &Arc<Place>) -> hyper::Result<()>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Self {
            calls,
            streams,
            patience,
        } = self;
        // Each stream has a task of its own, which may outlive the connection for an instant.
        let service = service_fn(|request| {
            let (calls, busy) = (Arc::clone(calls), place.busy());
            async move {
                let answer = calls.call(request, peer).await;
                Ok::<_, Infallible>(answer.map(|body| WhileBusy { body, _busy: busy }))
            }
        });
        let Streams {
            number,
            send_buffer,
            keep_alive,
        } = *streams;
        http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(number)
            .max_send_buf_size(send_buffer)
            .keep_alive_interval(keep_alive)
            .serve_connection(
                Stalled::new(TokioIo::new(Preface::new(stream, *patience))),
                service,
            )
            .await
    }
}

/// A body, until whose end its connection is not idle.
struct WhileBusy<B> {
    body: B,
    _busy: Busy,
}

impl<B: Body + Unpin> Body for WhileBusy<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
