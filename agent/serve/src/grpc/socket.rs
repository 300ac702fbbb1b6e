//! The socket's connections, also after its file was removed.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use shunt_http::SocketFile;
use shunt_runtime::Reports;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::mpsc,
    time::sleep,
};
use tracing::{info, warn};

/// Interval at which the file is looked for.
const LOOK: Duration = Duration::from_secs(1);

/// The socket that is served; `None` when the server ends, and it is gone.
pub(super) type Shared = Arc<Mutex<Option<SocketFile>>>;

/// Accepts at `socket`, and makes its file anew if it was removed. Connected clients stay so.
pub(super) async fn keep(
    listener: UnixListener,
    socket: Shared,
    streams: mpsc::Sender<UnixStream>,
    reports: Arc<Reports>,
) {
    let mut accepting = tokio::spawn(accept(listener, streams.clone()));
    let mut is_in_trouble = false;
    loop {
        sleep(LOOK).await;
        match renew(&socket).await {
            Ok(Some(listener)) => match UnixListener::from_std(listener) {
                Ok(listener) => {
                    reports.count_socket();
                    is_in_trouble = false;
                    accepting.abort();
                    accepting = tokio::spawn(accept(listener, streams.clone()));
                }
                Err(error) => warn!(%error, "the socket cannot be served"),
            },
            Ok(None) => is_in_trouble = false,
            Err(error) => {
                if !is_in_trouble {
                    warn!("the socket's file was removed, and cannot be made anew: {error}");
                }
                is_in_trouble = true;
            }
        }
    }
}

/// Makes the file anew if it is not there; returns the new listener.
async fn renew(shared: &Shared) -> io::Result<Option<std::os::unix::net::UnixListener>> {
    let Some(path) = removed(shared) else {
        return Ok(None);
    };
    let mut renewed = SocketFile::listen(&path).await.map_err(io::Error::other)?;
    let listener = renewed.take_listener()?;
    let mut socket = shared.lock().unwrap_or_else(PoisonError::into_inner);
    if socket.is_none() {
        // The server has ended meanwhile.
        return Ok(None);
    }
    *socket = Some(renewed);
    info!(
        "the socket's file {} was removed by somebody: it was made anew",
        path.display()
    );
    Ok(Some(listener))
}

/// Returns where the socket's file was, if it is not there.
fn removed(shared: &Shared) -> Option<PathBuf> {
    let socket = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let socket = socket.as_ref().filter(|socket| socket.is_removed())?;
    Some(socket.path().to_owned())
}

async fn accept(listener: UnixListener, streams: mpsc::Sender<UnixStream>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // For example for want of descriptors: it would fail again at once.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        if streams.send(stream).await.is_err() {
            return;
        }
    }
}
