//! Connections of one listener.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use shunt_runtime::after;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    task::JoinSet,
    time::sleep,
};
use tracing::{debug, warn};

use crate::{
    answer::Answer,
    peer::Peer,
    places::{GivesWay, Place, Places},
    stalled::Stalled,
};

/// Time to wait if the kernel has no more files for us.
const PAUSE: Duration = Duration::from_millis(100);

/// Something that answers requests.
pub trait Answers: Send + Sync + 'static {
    /// Returns the answer to `request` of `peer`.
    fn answer(&self, request: Request<Incoming>, peer: Peer)
    -> impl Future<Output = Answer> + Send;
}

/// Source of connections.
#[derive(Debug)]
pub enum Listening {
    /// An address and a port.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

/// Limits of a listener.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of connections at once, without some that are kept for loopback.
    pub connections: usize,
    /// Maximum time until a client has sent the header of a request, also between two of one connection.
    pub patience: Duration,
    /// Maximum duration of one connection.
    pub lifetime: Option<Duration>,
}

impl Limits {
    /// The limits of a listener with requests that are answered at once.
    pub const SHORT: Self = Self {
        connections: 1024,
        patience: Duration::from_secs(5),
        lifetime: Some(Duration::from_mins(10)),
    };
}

/// Takes connections and has `answers` answer them, for ever. Dropped, it ends them all.
pub(crate) async fn accept<A: Answers>(listener: std::net::TcpListener, answers: Arc<A>) {
    match TcpListener::from_std(listener) {
        Ok(listener) => accept_from(Listening::Tcp(listener), Limits::SHORT, answers).await,
        Err(error) => warn!(%error, "a listener cannot be waited for"),
    }
}

/// As [`accept`], with other limits.
pub async fn accept_from<A: Answers>(listening: Listening, limits: Limits, answers: Arc<A>) {
    let places = Places::new(limits.connections);
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if let Err(error) = take(&listening, &mut connections, &places, limits, &answers).await {
            debug!(%error, "a connection was not taken");
            sleep(PAUSE).await;
        }
    }
}

/// Takes one connection, which keeps its place until it ends or gives way. Without a place it ends at once.
async fn take<A: Answers>(
    listening: &Listening,
    connections: &mut JoinSet<()>,
    places: &Places,
    limits: Limits,
    answers: &Arc<A>,
) -> io::Result<()> {
    let answers = Arc::clone(answers);
    match listening {
        Listening::Tcp(listener) => {
            let (stream, from) = listener.accept().await?;
            // Answers are short, and wait for no other.
            drop(stream.set_nodelay(true));
            let peer = Peer::Address(from);
            if let Some(place) = places.take(peer) {
                connections.spawn(converse(stream, peer, place, limits, answers));
            }
        }
        Listening::Unix(listener) => {
            let (stream, _) = listener.accept().await?;
            let peer = Peer::User(stream.peer_cred().ok().map(|of| of.uid()));
            if let Some(place) = places.take(peer) {
                connections.spawn(converse(stream, peer, place, limits, answers));
            }
        }
    }
    Ok(())
}

/// Answers the requests of a connection until it ends, gives way, or has lasted long enough. Its end ends a request that
/// waits, too: a client that has gone keeps no place.
async fn converse<A, S>(
    stream: S,
    peer: Peer,
    (place, gives_way): (Place, GivesWay),
    limits: Limits,
    answers: Arc<A>,
) where
    A: Answers,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (place, answers) = (&place, &answers);
    let service = service_fn(move |request| async move {
        let _busy = place.busy();
        Ok::<_, Infallible>(answers.answer(request, peer).await)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.patience)
        .serve_connection(Stalled::new(TokioIo::new(stream)), service);
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                debug!(%error, "a connection has ended");
            }
        }
        _ = gives_way => debug!(?peer, "a connection gives way to another one"),
        () = after(limits.lifetime) => {}
    }
}
