//! Connections of HTTP/1.1.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{answer::Answer, peer::Peer, places::Place, protocol::Protocol, stalled::Stalled};

/// Something that answers requests.
pub trait Answers: Send + Sync + 'static {
    /// Returns the answer to `request` of `peer`.
    fn answer(&self, request: Request<Incoming>, peer: Peer)
    -> impl Future<Output = Answer> + Send;
}

/// HTTP/1.1, one request of a connection after the other.
pub(crate) struct Http1<A> {
    answers: Arc<A>,
    /// Maximum time until a client has sent the header of a request.
    patience: Duration,
}

impl<A> Http1<A> {
    pub(crate) const fn new(answers: Arc<A>, patience: Duration) -> Self {
        Self { answers, patience }
    }
}

impl<A: Answers> Protocol for Http1<A> {
    async fn serve<S>(&self, stream: S, peer: Peer, place: &Arc<Place>) -> hyper::Result<()>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Self { answers, patience } = self;
        let service = service_fn(move |request| async move {
            let _busy = place.busy();
            Ok::<_, Infallible>(answers.answer(request, peer).await)
        });
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(*patience)
            .serve_connection(Stalled::new(TokioIo::new(stream)), service)
            .await
    }
}
