//! Connections of one listener.

use std::{future::pending, io, sync::Arc, time::Duration};

use shunt_runtime::after;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener, UnixStream},
    sync::mpsc,
    task::JoinSet,
    time::sleep,
};
use tracing::{debug, warn};

use crate::{
    address::ServeListener,
    http1::{Answers, Http1},
    http2::{Calls, Http2, Streams},
    peer::Peer,
    places::{GivesWay, Place, Places},
    protocol::Protocol,
    socket_file::SocketFile,
};

/// Time to wait if the kernel has no more files for us.
const PAUSE: Duration = Duration::from_millis(100);

/// Source of connections.
#[derive(Debug)]
pub enum Listening {
    /// An address and a port.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
    /// Connections of Unix sockets that another task takes.
    Channel(mpsc::Receiver<UnixStream>),
}

impl Listening {
    /// Waits for connections at `listener`, in the runtime of the caller; returns its socket's file too, which is there as
    /// long as it is kept.
    ///
    /// # Errors
    ///
    /// The listener cannot be waited for.
    pub fn at(listener: ServeListener) -> io::Result<(Self, Option<SocketFile>)> {
        match listener {
            ServeListener::Tcp(listener) => Ok((Self::Tcp(TcpListener::from_std(listener)?), None)),
            ServeListener::Unix(mut socket) => {
                let listener = UnixListener::from_std(socket.take_listener()?)?;
                Ok((Self::Unix(listener), Some(socket)))
            }
        }
    }
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
    serve(listening, limits, Http1::new(answers, limits.patience)).await;
}

/// As [`accept_from`], by HTTP/2 alone, whose requests share a connection. The patience is for the preface.
pub async fn accept_calls<C: Calls>(
    listening: Listening,
    limits: Limits,
    streams: Streams,
    calls: Arc<C>,
) {
    serve(
        listening,
        limits,
        Http2::new(calls, streams, limits.patience),
    )
    .await;
}

/// Takes connections and serves them by `protocol`, for ever.
async fn serve<P: Protocol>(mut listening: Listening, limits: Limits, protocol: P) {
    let (places, protocol) = (Places::new(limits.connections), Arc::new(protocol));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let taken = take(&mut listening, &mut connections, &places, limits, &protocol);
        if let Err(error) = taken.await {
            debug!(%error, "a connection was not taken");
            sleep(PAUSE).await;
        }
    }
}

/// Takes one connection, which keeps its place until it ends or gives way. Without a place it ends at once.
async fn take<P: Protocol>(
    listening: &mut Listening,
    connections: &mut JoinSet<()>,
    places: &Places,
    limits: Limits,
    protocol: &Arc<P>,
) -> io::Result<()> {
    let protocol = Arc::clone(protocol);
    let stream = match listening {
        Listening::Tcp(listener) => {
            let (stream, from) = listener.accept().await?;
            // Answers are short, and wait for no other.
            drop(stream.set_nodelay(true));
            let peer = Peer::Address(from);
            if let Some(place) = places.take(peer) {
                connections.spawn(converse(stream, peer, place, limits, protocol));
            }
            return Ok(());
        }
        Listening::Unix(listener) => listener.accept().await?.0,
        Listening::Channel(streams) => {
            let Some(stream) = streams.recv().await else {
                // None comes any more, and those that are there go on.
                return pending().await;
            };
            stream
        }
    };
    let peer = Peer::User(stream.peer_cred().ok().map(|of| of.uid()));
    if let Some(place) = places.take(peer) {
        connections.spawn(converse(stream, peer, place, limits, protocol));
    }
    Ok(())
}

/// Answers the requests of a connection until it ends, gives way, or has lasted long enough. Its end ends a request that
/// waits, too: a client that has gone keeps no place.
async fn converse<P, S>(
    stream: S,
    peer: Peer,
    (place, gives_way): (Arc<Place>, GivesWay),
    limits: Limits,
    protocol: Arc<P>,
) where
    P: Protocol,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    tokio::select! {
        ended = protocol.serve(stream, peer, &place) => {
            if let Err(error) = ended {
                debug!(%error, "a connection has ended");
            }
        }
        _ = gives_way => debug!(?peer, "a connection gives way to another one"),
        () = after(limits.lifetime) => {}
    }
}
