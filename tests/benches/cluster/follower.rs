//! An agent that follows a cluster.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use shunt_tests::{Agent, PinDir, interrupt};

use super::world::{ALL_ENDPOINTS, World, node};
use crate::machine::{
    frontends::{Expected, Frontends},
    process, tables,
};

/// An agent in a cluster's namespace. All of it goes when it is dropped.
pub(super) struct Follower {
    // In the order in which they are to go.
    agent: Agent,
    binary: PathBuf,
    pins: PinDir,
}

impl Follower {
    /// Starts an agent that follows the cluster. It may still have to list it.
    ///
    /// # Errors
    ///
    /// If it does not become ready.
    pub(super) fn start(binary: &Path, world: &World) -> Result<Self> {
        interrupt::check()?;
        let pins = PinDir::new();
        let node = node(0);
        let flags = [
            "--kubeconfig",
            world.server.kubeconfig(),
            "--hostname-override",
            &node,
            "--pod-cidr",
            "10.200.0.0/24",
            "--interface",
            "lo",
        ];
        Ok(Self {
            agent: Agent::follow_quietly(binary, &world.namespace, &pins, &flags)?,
            binary: binary.to_owned(),
            pins,
        })
    }

    /// Starts an agent, and waits until the expected services are in the kernel. Returns how long that took
    /// from the first byte of the first list on.
    ///
    /// # Errors
    ///
    /// If they never are.
    pub(super) fn complete(
        binary: &Path,
        world: &World,
        expected: Expected,
    ) -> Result<(Self, Frontends, Duration)> {
        let before = world.server.list_times().len();
        let follower = Self::start(binary, world)?;
        let (kernel, there) = Frontends::await_all(follower.pins.path(), expected)?;
        let lists = world.server.list_times();
        let first: &Instant = lists.get(before).context("nothing was listed")?;
        Ok((follower, kernel, there.saturating_duration_since(*first)))
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.agent.pid()
    }

    /// Returns the number of lines of its log.
    pub(super) fn log_lines(&self) -> usize {
        self.agent.log().lines().count()
    }

    /// Returns its resident memory, in bytes, once that stays the same.
    ///
    /// # Errors
    ///
    /// If it is gone.
    pub(super) fn resident(&self) -> Result<u64> {
        process::settled(|| process::memory(self.pid(), "VmRSS"))
    }

    /// Makes sure that the kernel's tables, read back, match the API, and hold all endpoints
    /// once what was replaced is free.
    ///
    /// # Errors
    ///
    /// If they do not.
    pub(super) fn check(&self) -> Result<()> {
        tables::await_backends(&self.agent, &self.binary, ALL_ENDPOINTS)
    }
}

/// A number that no other namespace of this suite has.
pub(super) fn next_number() -> u32 {
    // The other suites begin at 0.
    static NUMBER: AtomicU32 = AtomicU32::new(1_000_000);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}
