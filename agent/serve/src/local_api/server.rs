//! The server of the API, which has a thread of its own.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use shunt_catalog::{Federation, Registrar};
use shunt_http::{ServeListener, SocketFile};
use shunt_runtime::give_way;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    runtime::{self, Runtime},
    sync::Semaphore,
    task::JoinSet,
    time::sleep,
};
use tracing::debug;

use crate::local_api::{route::respond, stalled::Stalled};

/// Maximum number of connections at once; others wait in the kernel. More than may wait for a service
/// to change, so that others are answered beside these.
const CONNECTIONS: usize = 5120;

/// Maximum time that a client may take to ask, also between two questions of one connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time to wait if the kernel has no more files for us.
const PAUSE: Duration = Duration::from_millis(100);

/// A running server. Dropping it ends it, and removes its socket if it has one.
#[derive(Debug)]
pub struct LocalApiServer {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    _socket: Option<SocketFile>,
}

/// Sources of the answers.
#[derive(Debug, Clone)]
struct Known(Registrar, Option<Federation>);

/// Source of connections.
enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl LocalApiServer {
    /// Begins to serve at `listener` what `registrar` knows, and `federation` of other datacenters.
    ///
    /// # Errors
    ///
    /// If its thread cannot be started.
    pub fn start(
        listener: ServeListener,
        registrar: Registrar,
        federation: Option<Federation>,
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("local-api")
            .on_thread_start(give_way)
            .enable_all()
            .build()?;
        let inside = runtime.enter();
        let (listening, socket) = match listener {
            ServeListener::Tcp(listener) => {
                (Listening::Tcp(TcpListener::from_std(listener)?), None)
            }
            ServeListener::Unix(mut socket) => {
                let listener = UnixListener::from_std(socket.take_listener()?)?;
                (Listening::Unix(listener), Some(socket))
            }
        };
        drop(inside);
        runtime.spawn(accept(listening, Known(registrar, federation)));
        Ok(Self {
            runtime: Some(runtime),
            _socket: socket,
        })
    }
}

/// Takes connections and answers them, for ever. Dropped, it ends them all.
async fn accept(listening: Listening, known: Known) -> Infallible {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // It is never closed.
        let place = Arc::clone(&room).acquire_owned().await;
        while connections.try_join_next().is_some() {}
        let known = known.clone();
        let taken = match &listening {
            Listening::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                // Answers are short, and wait for no other.
                let _ = stream.set_nodelay(true);
                connections.spawn(async move {
                    answer(stream, &known, true).await;
                    drop(place);
                });
            }),
            Listening::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                connections.spawn(async move {
                    answer(stream, &known, false).await;
                    drop(place);
                });
            }),
        };
        if let Err(error) = taken {
            debug!(%error, "a connection was not taken");
            sleep(PAUSE).await;
        }
    }
}

/// Answers what a connection asks until it ends. Its end ends what it waits for, too: who has gone keeps
/// no place.
async fn answer<S>(stream: S, known: &Known, is_tcp: bool)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Known(registrar, federation) = known;
    let federation = federation.as_ref();
    let service = service_fn(|request| async move {
        Ok::<_, Infallible>(respond(registrar, federation, request, is_tcp).await)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(Stalled::new(TokioIo::new(stream)), service);
    if let Err(error) = connection.await {
        debug!(%error, "a connection has ended");
    }
}

impl Drop for LocalApiServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A client that waits sees the connection's end.
            runtime.shutdown_background();
        }
    }
}
