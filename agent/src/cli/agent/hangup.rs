//! SIGHUP, which does not end the agent.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

/// Handles SIGHUP, whose default ends a process, for as long as the agent runs. If the agent follows the
/// definitions of `--local-services`, it reads them again as well.
///
/// # Errors
///
/// If the kernel refuses the handler.
pub(super) fn outlive_hangups() -> io::Result<()> {
    let mut hangups = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            info!(
                "SIGHUP: flags and the file of --config hold until a restart, which interrupts nothing"
            );
        }
    });
    Ok(())
}
