//! The socket's connections, also after somebody has removed its file.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    net::{UnixListener, UnixStream},
    sync::mpsc,
    task::spawn_blocking,
    time::sleep,
};
use tracing::{info, warn};

use crate::{runtime::reports::Reports, serve::socket_file::SocketFile};

/// How often the file is looked for.
const LOOK: Duration = Duration::from_secs(1);

/// The socket that is served; `None` when the server ends, and it is gone.
pub(super) type Shared = Arc<Mutex<Option<SocketFile>>>;

/// Accepts at `socket`, and makes its file anew if somebody has removed it. Whoever is connected stays so.
pub(super) async fn keep(
    listener: UnixListener,
    socket: Shared,
    streams: mpsc::Sender<io::Result<UnixStream>>,
    reports: Arc<Reports>,
) {
    let mut accepting = tokio::spawn(accept(listener, streams.clone()));
    let mut is_in_trouble = false;
    loop {
        sleep(LOOK).await;
        let (socket, is_known) = (Arc::clone(&socket), is_in_trouble);
        match spawn_blocking(move || renew(&socket)).await {
            Ok(Ok(Some(listener))) => match UnixListener::from_std(listener) {
                Ok(listener) => {
                    reports.count_socket();
                    is_in_trouble = false;
                    accepting.abort();
                    accepting = tokio::spawn(accept(listener, streams.clone()));
                }
                Err(error) => warn!(%error, "the socket cannot be served"),
            },
            Ok(Ok(None)) => is_in_trouble = false,
            Ok(Err(error)) => {
                if !is_known {
                    warn!("the socket's file was removed, and cannot be made anew: {error}");
                }
                is_in_trouble = true;
            }
            // The runtime is ending.
            Err(_) => return,
        }
    }
}

/// Makes the file anew if it is not there; gives what listens then.
fn renew(shared: &Shared) -> io::Result<Option<std::os::unix::net::UnixListener>> {
    let mut socket = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(path) = socket
        .as_ref()
        .filter(|socket| socket.is_removed())
        .map(|socket| socket.path().to_owned())
    else {
        return Ok(None);
    };
    let mut renewed = SocketFile::listen(&path).map_err(io::Error::other)?;
    let listener = renewed.take_listener()?;
    info!(
        "the socket's file {} was removed by somebody: it was made anew",
        path.display()
    );
    *socket = Some(renewed);
    Ok(Some(listener))
}

async fn accept(listener: UnixListener, streams: mpsc::Sender<io::Result<UnixStream>>) {
    loop {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        if accepted.is_err() {
            // For want of descriptors, say: it would fail again at once.
            sleep(Duration::from_millis(100)).await;
        }
        if streams.send(accepted).await.is_err() {
            return;
        }
    }
}
