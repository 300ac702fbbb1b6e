//! What the kernel programs say of packets, on its way into our log.

use std::io;

use aya::Ebpf;
use aya_log::EbpfLogger;
use thiserror::Error;
use tokio::task::JoinHandle;

use crate::sys::log_watch::watch;

/// The programs' log cannot be followed.
#[derive(Debug, Error)]
pub enum PacketLogError {
    /// The object has no log, or another one.
    #[error("opening the log of the kernel programs failed: {0}")]
    Open(#[from] aya_log::Error),
    /// The log's descriptor cannot be waited for.
    #[error("waiting for the log of the kernel programs failed: {0}")]
    Wait(#[from] io::Error),
}

/// Forwards the programs' messages to the `log` crate until the task is aborted.
///
/// # Errors
///
/// If the log cannot be opened or waited for.
pub(crate) fn forward(ebpf: &mut Ebpf) -> Result<JoinHandle<()>, PacketLogError> {
    let mut logger = watch(EbpfLogger::init(ebpf)?)?;
    Ok(tokio::spawn(async move {
        while let Ok(mut guard) = logger.readable_mut().await {
            guard.get_inner_mut().flush();
            guard.clear_ready();
        }
    }))
}
