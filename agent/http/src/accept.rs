//! Connections of one listener.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use crate::answer::Answer;

/// Maximum number of connections of a listener at once; others wait in the kernel.
const CONNECTIONS: usize = 1024;

/// Maximum time that a client may take to ask, also between two questions of one connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum duration of one connection.
const LIFETIME: Duration = Duration::from_mins(10);

/// Time to wait if the kernel has no more files for us.
const PAUSE: Duration = Duration::from_millis(100);

/// Something that answers questions.
pub trait Answers: Send + Sync + 'static {
    /// The answer to what `request` asks for.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}

/// Source of connections.
#[derive(Debug)]
pub enum Listening {
    /// An address and a port.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

/// Takes connections and has `answers` answer them, for ever. Dropped, it ends them all.
pub(crate) async fn accept<A: Answers>(listener: std::net::TcpListener, answers: Arc<A>) {
    match TcpListener::from_std(listener) {
        Ok(listener) => accept_from(Listening::Tcp(listener), CONNECTIONS, answers).await,
        Err(error) => warn!(%error, "a listener cannot be waited for"),
    }
}

/// As [`accept`], with so many connections at once.
pub async fn accept_from<A: Answers>(listening: Listening, connections: usize, answers: Arc<A>) {
    let room = Arc::new(Semaphore::new(connections));
    let mut connections = JoinSet::new();
    loop {
        // It is never closed.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        if let Err(error) = take(&listening, &mut connections, place, &answers).await {
            debug!(%error, "a connection was not taken");
            sleep(PAUSE).await;
        }
    }
}

/// Takes one connection, which keeps its place until it ends.
async fn take<A: Answers>(
    listening: &Listening,
    connections: &mut JoinSet<()>,
    place: OwnedSemaphorePermit,
    answers: &Arc<A>,
) -> io::Result<()> {
    let answers = Arc::clone(answers);
    match listening {
        Listening::Tcp(listener) => {
            let (stream, _) = listener.accept().await?;
            connections.spawn(converse(stream, place, answers));
        }
        Listening::Unix(listener) => {
            let (stream, _) = listener.accept().await?;
            connections.spawn(converse(stream, place, answers));
        }
    }
    Ok(())
}

/// Answers what a connection asks until it ends, or has lasted long enough.
async fn converse<A, S>(stream: S, place: OwnedSemaphorePermit, answers: Arc<A>)
where
    A: Answers,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(move |request| {
        let answers = Arc::clone(&answers);
        async move { Ok::<_, Infallible>(answers.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    // How it ended is the client's affair.
    drop(timeout(LIFETIME, connection).await);
    drop(place);
}
