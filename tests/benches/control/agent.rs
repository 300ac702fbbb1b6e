//! An agent in a namespace of its own, and how long it takes.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use shunt_tests::{Ack, Agent, Namespace, PinDir, interrupt};

use crate::machine::{process, tables};

/// An agent in a namespace of its own. All of it goes when it is dropped.
pub(super) struct Subject {
    // In the order in which they are to go.
    agent: Agent,
    binary: PathBuf,
    _pins: PinDir,
    namespace: Namespace,
}

/// Cost of an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    /// From before its first byte was written to after the agent's answer was read.
    pub time: Duration,
    /// Writes to the kernel's tables.
    pub writes: u64,
}

impl Subject {
    /// Starts an agent, which knows of no services.
    ///
    /// # Errors
    ///
    /// If it does not become ready.
    pub(super) fn start(binary: &Path, flags: &[&str]) -> Result<Self> {
        let namespace = Namespace::new(next_number(), "control")?;
        let pins = PinDir::new();
        Ok(Self {
            agent: Agent::start(binary, &namespace, &pins, flags)?,
            binary: binary.to_owned(),
            _pins: pins,
            namespace,
        })
    }

    /// Returns its network namespace.
    pub(super) const fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Hands it an event that must take effect.
    ///
    /// # Errors
    ///
    /// If it does not, or the user wants to stop.
    pub(super) fn apply(&mut self, event: &str) -> Result<Taken> {
        interrupt::check()?;
        let begin = Instant::now();
        let ack = self.agent.apply(event)?;
        let time = begin.elapsed();
        match ack {
            Ack::Applied { writes, .. } => Ok(Taken { time, writes }),
            Ack::Refused(reason) => bail!("the agent refuses an event: {reason}"),
        }
    }

    /// Hands it an event, and at once another one, of which it returns the cost; both must take effect.
    ///
    /// # Errors
    ///
    /// As [`Self::apply`].
    pub(super) fn apply_behind(&mut self, first: &str, event: &str) -> Result<Taken> {
        self.agent.send(&[first])?;
        self.apply(event)
    }

    /// Makes sure that the kernel's tables, read back, match the events, and hold so many
    /// backends once what was replaced is free.
    ///
    /// # Errors
    ///
    /// If they do not.
    pub(super) fn check(&self, backends: u32) -> Result<()> {
        tables::await_backends(&self.agent, &self.binary, backends)
    }

    /// Returns the number of entries that the tables of this name hold in both families, as the events require.
    ///
    /// # Errors
    ///
    /// If they are not.
    pub(super) fn used(&self, name: &str) -> Result<u64> {
        tables::used(&self.agent, &self.binary, name)
    }

    /// A line of its `/proc/PID/status`, in bytes.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub(super) fn memory(&self, line: &str) -> Result<u64> {
        process::memory(self.agent.pid(), line)
    }

    /// Its own memory in bytes, once it stays the same.
    ///
    /// # Errors
    ///
    /// If the process is gone.
    pub(super) fn settled(&self) -> Result<u64> {
        process::settled(|| self.memory("RssAnon"))
    }

    /// Returns the processor time of its threads, in seconds.
    ///
    /// # Errors
    ///
    /// If the process is gone.
    pub(super) fn processor_seconds(&self) -> Result<f64> {
        process::processor_seconds(self.agent.pid())
    }

    /// Returns the path of its socket.
    pub(super) fn socket(&self) -> &Path {
        self.agent.socket()
    }

    /// Returns the kernel memory of its tables, in bytes, as the kernel reports it.
    ///
    /// # Errors
    ///
    /// If the process is gone.
    pub(super) fn tables(&self) -> Result<u64> {
        let folder = format!("/proc/{}/fdinfo", self.agent.pid());
        let mut maps = std::collections::BTreeMap::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("no {folder}"))? {
            // A descriptor may be closed between the listing and the reading.
            let Ok(text) = fs::read_to_string(entry?.path()) else {
                continue;
            };
            let number = |key: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(key))?;
                line.trim().parse::<u64>().ok()
            };
            if let (Some(id), Some(bytes)) = (number("map_id:"), number("memlock:")) {
                maps.insert(id, bytes);
            }
        }
        ensure!(!maps.is_empty(), "the agent holds no tables");
        Ok(maps.into_values().sum())
    }
}

/// Milliseconds.
pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A number that no other namespace of this run has.
pub(super) fn next_number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}
