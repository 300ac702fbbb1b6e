//! The end of sockets.

use std::io;

use nix::errno::Errno;
use thiserror::Error;

use crate::sweep::{
    message::{Kind, SocketId},
    sock_diag::{BATCH, SockDiag},
};

/// Stale sockets stay.
#[derive(Debug, Error)]
pub(crate) enum SweepError {
    /// The kernel does not list sockets.
    #[error("the kernel does not list sockets: {0}")]
    List(io::Error),
    /// It cannot do what is needed.
    #[error("this kernel cannot destroy sockets: it was built without CONFIG_INET_DIAG_DESTROY")]
    Unsupported,
    /// It does not want to.
    #[error("the kernel does not destroy sockets: {0}")]
    Destroy(io::Error),
}

/// Destroys sockets of a kind, and returns how many were.
pub(crate) fn destroy(
    diag: &mut SockDiag,
    kind: Kind,
    sockets: &[SocketId],
) -> Result<u64, SweepError> {
    let mut destroyed = 0;
    for batch in sockets.chunks(BATCH) {
        destroyed += destroy_batch(diag, kind, batch)?;
    }
    Ok(destroyed)
}

fn destroy_batch(diag: &mut SockDiag, kind: Kind, sockets: &[SocketId]) -> Result<u64, SweepError> {
    let (mut destroyed, mut refused) = (0, None);
    diag.destroy(kind, sockets, |outcome| match outcome {
        Ok(()) => destroyed += 1,
        // Closed meanwhile, or connected to another peer.
        Err(Errno::ENOENT) => {}
        Err(error) => refused = Some(error),
    })
    .map_err(SweepError::Destroy)?;
    match refused {
        // Where some are destroyed, the others have ended meanwhile.
        Some(error) if destroyed == 0 => Err(match error {
            Errno::EOPNOTSUPP => SweepError::Unsupported,
            error => SweepError::Destroy(error.into()),
        }),
        _ => Ok(destroyed),
    }
}
