//! Times of the server's actions that others are measured from.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Instant,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Times of the server's actions that others are measured from.
#[derive(Debug, Default)]
pub(super) struct Marks(Mutex<Times>);

#[derive(Debug, Default)]
struct Times {
    last_sent: Option<Instant>,
    lists: Vec<Instant>,
    writes: Vec<Instant>,
}

impl Marks {
    /// The answer to a request for a list begins.
    pub(super) fn list_begins(&self) {
        self.times().lists.push(Instant::now());
    }

    /// Returns the times at which the answers to requests for lists began.
    pub(super) fn lists(&self) -> Vec<Instant> {
        self.times().lists.clone()
    }

    /// A client has written a slice.
    pub(super) fn is_written(&self) {
        self.times().writes.push(Instant::now());
    }

    /// Returns the times at which clients have written slices.
    pub(super) fn writes(&self) -> Vec<Instant> {
        self.times().writes.clone()
    }

    /// Returns the time at which any bytes last were given to the kernel to be sent.
    pub(super) fn last_sent(&self) -> Option<Instant> {
        self.times().last_sent
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called before the kernel has the bytes: a client that waits for them may run before the thread
    /// that has sent them does again.
    fn sends(&self) {
        self.times().last_sent = Some(Instant::now());
    }
}

/// A connection whose marks have the time at which something was sent through it.
#[derive(Debug)]
pub(super) struct Marked {
    stream: TcpStream,
    marks: Arc<Marks>,
}

impl Marked {
    pub(super) const fn new(stream: TcpStream, marks: Arc<Marks>) -> Self {
        Self { stream, marks }
    }
}

impl AsyncRead for Marked {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Marked {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.marks.sends();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.marks.sends();
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
