//! What the kernel programs say of packets, on its way into our log.

use std::io;

use aya_log::EbpfLogger;
use thiserror::Error;
use tokio::{
    io::{Interest, unix::AsyncFd},
    task::JoinHandle,
};

use crate::datapath::Datapath;

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

impl Datapath {
    /// Forwards the programs' messages to the `log` crate until the task is aborted.
    ///
    /// # Errors
    ///
    /// If the log cannot be opened or waited for.
    pub fn forward_packet_log(&mut self) -> Result<JoinHandle<()>, PacketLogError> {
        let logger = EbpfLogger::init(self.ebpf_mut())?;
        // SAFETY: the logger owns the ring buffer whose descriptor it gives, always the same one,
        // and lives as long as the registration.
        let mut logger = unsafe { AsyncFd::register_with_interest(logger, Interest::READABLE) }
            .map_err(io::Error::from)?;
        Ok(tokio::spawn(async move {
            while let Ok(mut guard) = logger.readable_mut().await {
                guard.get_inner_mut().flush();
                guard.clear_ready();
            }
        }))
    }
}
