//! Connections whose client does not begin.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// Length of the preface by which a client of HTTP/2 begins, in bytes (RFC 9113, section 3.4).
const PREFACE: usize = 24;

/// A connection that ends unless its client sends a preface in time.
#[derive(Debug)]
pub(crate) struct Preface<S> {
    stream: S,
    /// Number of bytes that are missing, and the end of their time; `None`: it is complete.
    missing: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<S> Preface<S> {
    /// That of `stream`, whose client has this time.
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            missing: Some((PREFACE, Box::pin(sleep(patience)))),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Preface<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, missing } = &mut *self;
        if let Some((_, limit)) = missing
            && limit.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(stream).poll_read(context, buffer))?;
        if let Some((count, limit)) = missing.take() {
            let left = count.saturating_sub(buffer.filled().len() - before);
            *missing = (left > 0).then_some((left, limit));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Preface<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_client_has_to_begin_in_time() {
        for (begin, in_time) in [(0, false), (PREFACE - 1, false), (PREFACE, true)] {
            let (mut client, server) = duplex(64);
            let mut server = Preface::new(server, SHORT);
            client.write_all(&vec![b'a'; begin]).await.unwrap();
            let mut read = vec![0; begin];
            server.read_exact(&mut read).await.unwrap();
            tokio::spawn(async move {
                sleep(2 * SHORT).await;
                client.write_all(b"b").await
            });
            let next = server.read_u8().await.map_err(|error| error.kind());
            let expected = if in_time {
                Ok(b'b')
            } else {
                Err(io::ErrorKind::TimedOut)
            };
            assert_eq!(next, expected, "{begin}");
        }
    }
}
