//! Registrations, kept and checked on threads of their own.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant as Clock, SystemTime},
};

use shunt_runtime::give_way;
use thiserror::Error;
use tokio::{
    runtime::{self, Runtime},
    time::Instant,
};
use tracing::info;

use crate::local::{
    checks::keep::{keep_asking, keep_time, reap},
    options::LocalOptions,
    registrar::{Registrar, ReloadError},
    state::registry::Registry,
    store::{Store, StoreError, Stored},
    writer::{write_changes, write_last},
};

/// Registrations cannot be kept.
#[derive(Debug, Error)]
pub enum KeepError {
    /// The file cannot be used.
    #[error("--local-state: {0}")]
    Store(#[from] StoreError),
    /// The definitions cannot be used.
    #[error("--local-services: {0}")]
    Definitions(#[from] ReloadError),
    /// There is no thread for it.
    #[error("cannot start the thread that keeps registrations: {0}")]
    Threads(io::Error),
}

/// Time that a write that has begun may take at the end.
const LAST: Duration = Duration::from_secs(5);

/// The number of the first change: above those of an agent before, which had less than one in a microsecond.
/// A clock that went back is handled by the caller that compares it.
fn first_index() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let micros = since.unwrap_or_default().as_micros();
    u64::try_from(micros).unwrap_or(1).max(1)
}

/// The tasks that keep registrations and run checks. Dropping it ends that, with a last write if one is due.
#[derive(Debug)]
pub struct Keeper {
    registrar: Registrar,
    store: Arc<Store>,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Keeper {
    /// Reads what was registered, then the definitions, and begins to ask checks.
    ///
    /// # Errors
    ///
    /// Either cannot be read, and is as it was.
    pub async fn start(options: LocalOptions) -> Result<Self, KeepError> {
        let LocalOptions {
            node,
            state,
            services,
            http_checks,
        } = options;
        let began = Clock::now();
        let (store, Stored { known, statuses }) = Store::open(&state)?;
        let mut registry = Registry::starting_at(first_index());
        let (count, now) = (known.services().len(), Instant::now());
        registry.install(known, now);
        registry.restore(&statuses, now);
        let took = began.elapsed();
        info!(
            "{count} services were registered, by {} ({took:?})",
            state.display()
        );
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("local")
            .on_thread_start(give_way)
            .enable_all()
            .build()
            .map_err(KeepError::Threads)?;
        let (registrar, changes) = Registrar::new(node, registry, services, http_checks);
        let store = Arc::new(store);
        let writes = write_changes(registrar.clone(), Arc::clone(&store), changes);
        runtime.spawn(writes);
        let keeper = Self {
            registrar,
            store,
            runtime: Some(runtime),
        };
        keeper.registrar.reload().await?;
        keeper.registrar.hold_forbidden();
        if let Some(runtime) = &keeper.runtime {
            runtime.spawn(keep_asking(keeper.registrar.clone()));
            runtime.spawn(keep_time(keeper.registrar.clone()));
            runtime.spawn(reap(keeper.registrar.clone()));
        }
        Ok(keeper)
    }

    /// The way to the registrations.
    pub const fn registrar(&self) -> &Registrar {
        &self.registrar
    }
}

#[cfg(test)]
impl Keeper {
    /// Ends it, and waits until the file is free.
    pub(crate) fn stop(self) {
        drop(self);
    }

    /// Ends it as if it were killed.
    pub(crate) fn kill(mut self) {
        if let Some(runtime) = self.runtime.take() {
            thread::spawn(move || drop(runtime)).join().unwrap();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A runtime may not be waited for where another one runs.
            let ended = thread::spawn(move || runtime.shutdown_timeout(LAST)).join();
            if ended.is_ok() {
                write_last(&self.registrar, &self.store);
            }
        }
    }
}
