//! The end of a process in a pod.
//!
//! kube closes the streams of a process only if its connection ends in order. If sending fails first, because the process
//! has ended at once, they stay open and silent.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::watch,
};

/// The end of a process, once it has ended.
#[derive(Debug, Clone)]
pub(crate) struct End(watch::Receiver<Option<Ended>>);

/// The message of the status with which a process has failed, if it has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ended(Option<String>);

impl End {
    /// Waits for the status, which comes or is dropped with the connection.
    pub(crate) fn of(status: impl Future<Output = Option<Status>> + Send + 'static) -> Self {
        let (sender, receiver) = watch::channel(None);
        tokio::spawn(async move {
            let failed = status
                .await
                .filter(|status| status.status.as_deref() == Some("Failure"));
            let message = failed.and_then(|status| status.message);
            // It may be that nothing waits for it any more.
            drop(sender.send(Some(Ended(message))));
        });
        Self(receiver)
    }

    /// Waits for the end. Returns the message of a failure.
    pub(crate) async fn wait(mut self) -> Option<String> {
        let ended = self.0.wait_for(Option::is_some).await.ok()?;
        let Ended(message) = ended.clone()?;
        message
    }
}

/// A stream of a process, which ends when the process does.
pub(crate) struct UntilEnd<R> {
    stream: R,
    /// Nothing once the process has ended.
    end: Option<Pin<Box<dyn Future<Output = Option<String>> + Send>>>,
}

impl<R> UntilEnd<R> {
    /// Has the stream end with the process.
    pub(crate) fn new(stream: R, end: &End) -> Self {
        Self {
            stream,
            end: Some(Box::pin(end.clone().wait())),
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilEnd<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, end } = self.get_mut();
        // What the process has written comes before its end.
        if let Poll::Ready(read) = Pin::new(&mut *stream).poll_read(context, buffer) {
            return Poll::Ready(read);
        }
        if let Some(ending) = end {
            if ending.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            *end = None;
        }
        match Pin::new(stream).poll_read(context, buffer) {
            Poll::Pending => Poll::Ready(Ok(())),
            read @ Poll::Ready(_) => read,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        sync::oneshot,
    };

    use super::*;

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(work)
    }

    #[test]
    fn a_stream_ends_with_its_process_though_it_stays_open() {
        block_on(async {
            let (mut process, stream) = duplex(64);
            let (status, ended) = oneshot::channel::<Status>();
            let end = End::of(async { ended.await.ok() });
            let mut stream = UntilEnd::new(stream, &end);
            process.write_all(b"last words").await.unwrap();
            drop(status);
            let mut heard = String::new();
            stream.read_to_string(&mut heard).await.unwrap();
            assert_eq!(heard, "last words");
            assert_eq!(end.wait().await, None);
            drop(process);
        });
    }

    #[test]
    fn a_failure_has_its_message() {
        block_on(async {
            let failed = Status {
                status: Some("Failure".to_owned()),
                message: Some("no such file".to_owned()),
                ..Status::default()
            };
            let end = End::of(async { Some(failed) });
            assert_eq!(end.wait().await, Some("no such file".to_owned()));
        });
    }
}
