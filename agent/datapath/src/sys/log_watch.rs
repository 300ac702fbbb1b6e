//! Waiting for what the kernel programs log.

use std::io;

use aya_log::EbpfLogger;
use tokio::io::{Interest, unix::AsyncFd};

/// The log, to be waited for.
///
/// # Errors
///
/// If its descriptor cannot be waited for.
pub(crate) fn watch<T>(logger: EbpfLogger<T>) -> io::Result<AsyncFd<EbpfLogger<T>>> {
    // SAFETY: the logger owns the ring buffer whose descriptor it gives, always the same one, and
    // lives as long as the registration.
    let watched = unsafe { AsyncFd::register_with_interest(logger, Interest::READABLE) };
    watched.map_err(io::Error::from)
}
