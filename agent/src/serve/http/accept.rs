//! Connections of one listener.

use std::{convert::Infallible, net::TcpListener, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use crate::serve::http::answer::Answer;

/// How many connections a listener has at once; others wait in the kernel.
const CONNECTIONS: usize = 1024;

/// How long a client may take to ask, also between two questions of one connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long one connection lasts at most.
const LIFETIME: Duration = Duration::from_mins(10);

/// How long to wait if the kernel has no more files for us.
const PAUSE: Duration = Duration::from_millis(100);

/// Something that answers questions.
pub(crate) trait Answers: Send + Sync + 'static {
    /// The answer to what `request` asks for; its body is not read.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}

/// Takes connections and has `answers` answer them, for ever. Dropped, it ends them all.
pub(crate) async fn accept<A: Answers>(listener: TcpListener, answers: Arc<A>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            warn!(%error, "a listener cannot be waited for");
            return;
        }
    };
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // It is never closed.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                debug!(%error, "a connection was not taken");
                sleep(PAUSE).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let answers = Arc::clone(&answers);
        connections.spawn(async move {
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
        });
    }
}
