//! Connections to the API server that are read in large pieces.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hyper::Uri;
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader, ReadBuf},
    net::TcpStream,
};
use tower::Service;

/// Number of bytes to read at once: more than a slice of a hundred endpoints. TLS would read 4 KiB
/// at a time from the kernel, which for most of them notifies the server that there is room again.
const PIECE: usize = 64 * 1024;

/// Silence after which the kernel asks whether the server is there, and the time after which a server that does not
/// acknowledge anything is gone. HTTP/2 has pings of its own.
const QUIET: Duration = Duration::from_secs(10);
const GONE: Duration = Duration::from_secs(25);

/// Connects by TCP.
#[derive(Debug, Clone)]
pub(super) struct Connector(HttpConnector);

impl Connector {
    /// For HTTP, and for what HTTPS puts upon it.
    pub(super) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_keepalive(Some(QUIET));
        connector.set_keepalive_interval(Some(QUIET));
        connector.set_tcp_user_timeout(Some(GONE));
        Self(connector)
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Buffered>;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let connecting = self.0.call(server);
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            Ok(TokioIo::new(Buffered(BufReader::with_capacity(
                PIECE, stream,
            ))))
        })
    }
}

/// A connection with what has been read of it and is not asked for yet.
#[derive(Debug)]
pub(super) struct Buffered(BufReader<TcpStream>);

impl Connection for Buffered {
    fn connected(&self) -> Connected {
        self.0.get_ref().connected()
    }
}

impl AsyncRead for Buffered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Buffered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
