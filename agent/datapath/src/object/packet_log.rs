//! The kernel programs' messages about packets, on their way into our log.

use std::io;

use aya::Ebpf;
use aya_log::EbpfLogger;
use log::{Log, Metadata, Record};
use shunt_common::Counter;
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
    let log = EbpfLogger::init_with_logger(ebpf, WithNames(log::logger()))?;
    let mut logger = watch(log)?;
    Ok(tokio::spawn(async move {
        while let Ok(mut guard) = logger.readable_mut().await {
            guard.get_inner_mut().flush();
            guard.clear_ready();
        }
    }))
}

/// Text before the number of a counter, at the end of a message.
const REASON: &str = ", reason ";

/// A log in which reasons have names: programs have numbers alone.
struct WithNames(&'static dyn Log);

impl Log for WithNames {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        let text = with_name(record.args().to_string());
        self.0.log(
            &Record::builder()
                .metadata(record.metadata().clone())
                .args(format_args!("{text}"))
                .module_path(record.module_path())
                .file(record.file())
                .line(record.line())
                .build(),
        );
    }

    fn flush(&self) {
        self.0.flush();
    }
}

/// The message, with the name of the counter in place of its number.
fn with_name(text: String) -> String {
    let reason = text.rsplit_once(REASON).and_then(|(message, number)| {
        let counter = Counter::ALL.get(number.parse::<usize>().ok()?)?;
        Some((message, counter.name()))
    });
    match reason {
        Some((message, name)) => format!("{message}{REASON}{name}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_the_name_of_its_counter() {
        let number = Counter::DropNoRoute as u32;
        for (said, shown) in [
            (
                format!("packet dropped, reason {number}"),
                "packet dropped, reason drop_no_route",
            ),
            (
                "packet dropped, reason 999".to_owned(),
                "packet dropped, reason 999",
            ),
            (
                "connection of client 10.1.1.5:1".to_owned(),
                "connection of client 10.1.1.5:1",
            ),
        ] {
            assert_eq!(with_name(said), shown);
        }
    }
}
