//! Connections to a Consul agent.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use hyper::Uri;
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tower::Service;

use crate::consul::http::{address::Place, life::Life, tls::Tls};

/// Longest time to make a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// A host that is gone without a word is missed after some 25 s, though nothing is sent to it while a
/// query blocks.
const IDLE: Duration = Duration::from_secs(10);
const PROBE: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

/// Connects to one place.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    place: Arc<Place>,
    tls: Option<Arc<Tls>>,
    sockets: Option<Arc<Semaphore>>,
}

impl Connector {
    /// Connects with at most this number of `sockets` at a time, if there is a limit. The pool connects for a
    /// request even if a connection becomes idle meanwhile and serves it, so a limit on requests is none on
    /// sockets.
    pub(super) fn new(place: Place, tls: Option<Tls>, sockets: Option<usize>) -> Self {
        Self {
            place: Arc::new(place),
            tls: tls.map(Arc::new),
            sockets: sockets.map(|limit| Arc::new(Semaphore::new(limit))),
        }
    }

    async fn connect(self) -> io::Result<Stream> {
        let permit = match &self.sockets {
            Some(sockets) => Some(Arc::clone(sockets).acquire_owned().await),
            None => None,
        };
        let mut stream = self.open().await?;
        // The semaphore is never closed.
        stream.permit = permit.transpose().map_err(io::Error::other)?;
        Ok(stream)
    }

    async fn open(self) -> io::Result<Stream> {
        let Self {
            place,
            tls,
            sockets: _,
        } = self;
        let (host, port) = match &*place {
            Place::Unix(path) => return Ok(Stream::plain(UnixStream::connect(path).await?)),
            Place::Tcp { host, port, .. } => (host, *port),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new().with_time(IDLE);
        let keepalive = keepalive.with_interval(PROBE).with_retries(PROBES);
        SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
        let Some(tls) = tls else {
            return Ok(Stream::plain(stream));
        };
        let connector = TlsConnector::from(tls.config());
        let stream = connector.connect(tls.name(), stream).await?;
        let (_, session) = stream.get_ref();
        if session.alpn_protocol() != Some(b"h2") {
            return Err(io::Error::other(
                "the server does not speak HTTP/2 over TLS, as Consul does",
            ));
        }
        Ok(Stream {
            io: Box::new(stream),
            is_h2: true,
            life: Life::default(),
            permit: None,
        })
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connecting = self.clone().connect();
        Box::pin(async move {
            let connected = timeout(CONNECT, connecting).await;
            let slow = |_| io::Error::new(io::ErrorKind::TimedOut, "no connection within 5 s");
            Ok(TokioIo::new(connected.map_err(slow)??))
        })
    }
}

/// Stream of bytes.
trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// A connection.
pub(super) struct Stream {
    io: Box<dyn Io>,
    is_h2: bool,
    life: Life,
    /// Its place among the sockets, which it leaves when it is closed.
    permit: Option<OwnedSemaphorePermit>,
}

impl Stream {
    fn plain(io: impl Io + 'static) -> Self {
        Self {
            io: Box::new(io),
            is_h2: false,
            life: Life::default(),
            permit: None,
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            io: _,
            is_h2,
            life,
            permit: _,
        } = self;
        f.debug_struct("Stream")
            .field("is_h2", is_h2)
            .field("life", life)
            .finish_non_exhaustive()
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        // Each answer has it.
        let connected = Connected::new().extra(self.life.clone());
        if self.is_h2 {
            connected.negotiated_h2()
        } else {
            connected
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.remaining();
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        if let Poll::Ready(result) = &read
            && (result.is_err() || (room > 0 && buffer.remaining() == room))
        {
            self.life.end();
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
