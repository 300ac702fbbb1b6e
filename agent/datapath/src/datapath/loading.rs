//! Loading a datapath. The kernel verifies the programs for a second; meanwhile the agent may receive a signal
//! to end.

use std::{
    io,
    panic::resume_unwind,
    sync::mpsc::{self, Receiver, Sender},
    thread::Builder,
};

use aya::Ebpf;
use tracing::debug;

use super::{Datapath, Opening, cleanup};
use crate::{
    error::DatapathError,
    object::{options::DatapathOptions, requirements::explain, verified::verify},
};

/// A datapath that is about to be loaded.
#[derive(Debug)]
pub struct Loading {
    options: DatapathOptions,
    sender: Sender<News>,
    news: Receiver<News>,
}

/// A handle that stops a [`Loading`] in another thread.
#[derive(Debug, Clone)]
pub struct StopLoading(Sender<News>);

/// An event that [`Loading::load`] waits for.
#[derive(Debug, Clone, Copy)]
enum News {
    /// The thread that verifies the programs has ended.
    Verified,
    /// The agent does not need them any more.
    Stopped,
}

/// A guard that reports the end of its thread, also after a panic.
struct End(Sender<News>);

impl Drop for End {
    fn drop(&mut self) {
        // After a stop the receiver is gone.
        let _ = self.0.send(News::Verified);
    }
}

impl StopLoading {
    /// Makes [`Loading::load`] return before the kernel has verified the programs.
    pub fn stop(&self) {
        // If `load` has returned, the receiver is gone.
        let _ = self.0.send(News::Stopped);
    }
}

impl Loading {
    /// Returns a datapath of which nothing is loaded yet.
    pub fn new(options: DatapathOptions) -> Self {
        let (sender, news) = mpsc::channel();
        Self {
            options,
            sender,
            news,
        }
    }

    /// Returns the handle that stops [`Self::load`].
    pub fn stop(&self) -> StopLoading {
        StopLoading(self.sender.clone())
    }

    /// Loads it, as [`Datapath::load`] does.
    ///
    /// If it is stopped, the pins stay as after any other end of an agent: if nothing is translated, nothing
    /// stays pinned. The kernel goes on with its verification until this process ends.
    ///
    /// # Errors
    ///
    /// As [`Datapath::load`], and [`DatapathError::Stopped`].
    pub fn load(self) -> Result<Datapath, DatapathError> {
        let Self {
            options,
            sender,
            news,
        } = self;
        let verified = |ebpf, names| verify_unless_stopped(ebpf, names, sender, &news);
        match Datapath::open(&options, verified)? {
            Opening::Ready(datapath) => Ok(*datapath),
            Opening::Stopped { is_idle } => {
                if let (Some(dir), true) = (&options.pin_dir, is_idle) {
                    cleanup(dir)?;
                }
                Err(DatapathError::Stopped)
            }
        }
    }
}

impl Datapath {
    /// Loads the object into the kernel, with the tables that are pinned, if any. Nothing is
    /// attached yet, and nothing in those tables is changed.
    ///
    /// # Errors
    ///
    /// If the kernel lacks a feature, or we a privilege (`CAP_BPF`, `CAP_NET_ADMIN`, `CAP_PERFMON`); if the pin
    /// directory is in use, or of another version.
    pub fn load(options: &DatapathOptions) -> Result<Self, DatapathError> {
        Loading::new(options.clone()).load()
    }

    /// Has the kernel verify programs in a thread from now on, which an interface is the first to need: it is attached
    /// when they are [loaded](Self::verified).
    ///
    /// # Errors
    ///
    /// If this binary is damaged.
    pub fn load_aside(&mut self) -> Result<(), DatapathError> {
        self.object.load_aside()
    }

    /// Waits until the kernel has verified or refused programs, which [`Self::take_verified`] takes; for ever if it
    /// verifies none.
    pub async fn verified(&mut self) {
        self.object.verified_aside().await;
    }

    /// Takes what the kernel has verified. [`Self::reconcile_interfaces`] attaches it.
    pub fn take_verified(&mut self) {
        if self.object.take_back() {
            self.replace_programs();
        }
    }
}

/// Verifies the programs of these names, as far as the kernel takes them. If the kernel refuses one, the
/// caller that needs it loads it again and reports the kernel's reason. `None` if it is stopped.
fn verify_unless_stopped(
    mut ebpf: Ebpf,
    names: Vec<&'static str>,
    sender: Sender<News>,
    news: &Receiver<News>,
) -> io::Result<Option<Ebpf>> {
    debug!(programs = names.len(), "the kernel verifies the programs");
    let end = End(sender);
    let verifying = Builder::new().name("verifier".to_owned()).spawn(move || {
        let _end = end;
        verify(&mut ebpf, &names, explain);
        ebpf
    })?;
    match news.recv() {
        Ok(News::Verified) => {
            let verified = verifying.join();
            Ok(Some(verified.unwrap_or_else(|panic| resume_unwind(panic))))
        }
        Ok(News::Stopped) | Err(_) => Ok(None),
    }
}
