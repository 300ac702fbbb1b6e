//! An agent that follows a cluster.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use shunt_tests::{Agent, PinDir, interrupt, run, wait_until};

use super::{
    kernel::Kernel,
    world::{ALL_ENDPOINTS, World, node},
};
use crate::machine::process;

/// How long the agent may take to free what was replaced: it waits until no event has come for a
/// while.
const FREED: Duration = Duration::from_secs(10);

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
            agent: Agent::follow(binary, &world.namespace, &pins, &flags)?,
            binary: binary.to_owned(),
            pins,
        })
    }

    /// Starts an agent, and waits until all services are in the kernel. Gives how long that took
    /// from the first byte of the first list on.
    ///
    /// # Errors
    ///
    /// If they never are.
    pub(super) fn complete(binary: &Path, world: &World) -> Result<(Self, Kernel, Duration)> {
        let before = world.server.list_times().len();
        let follower = Self::start(binary, world)?;
        let (kernel, there) = Kernel::await_all(follower.pins.path())?;
        let lists = world.server.list_times();
        let first: &Instant = lists.get(before).context("nothing was listed")?;
        Ok((follower, kernel, there.saturating_duration_since(*first)))
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.agent.pid()
    }

    /// What is resident of it, in bytes, once that stays the same.
    ///
    /// # Errors
    ///
    /// If it is gone.
    pub(super) fn resident(&self) -> Result<u64> {
        process::settled(|| process::memory(self.pid(), "VmRSS"))
    }

    /// Makes sure that the kernel's tables, read back, are what the API says, and hold all endpoints
    /// once what was replaced is free.
    ///
    /// # Errors
    ///
    /// If they do not.
    pub(super) fn check(&self) -> Result<()> {
        let mut last = None;
        let found = wait_until("the tables hold all endpoints", FREED, || {
            let used = self.used_backends();
            let is_right = matches!(used, Ok(used) if used == u64::from(ALL_ENDPOINTS));
            last = Some(used);
            // A question is a disturbance, too.
            std::thread::sleep(Duration::from_millis(200));
            is_right.then_some(())
        });
        found.with_context(|| format!("they hold {last:?}"))
    }

    fn used_backends(&self) -> Result<u64> {
        let socket = self.agent.socket().to_string_lossy().into_owned();
        let binary = self.binary.to_string_lossy();
        let status = run(&binary, &["status", "-o", "json", "--socket", &socket])?;
        let status: Value = serde_json::from_str(&status).context("cannot read the status")?;
        let differences = status["differences"].as_array().map_or(1, Vec::len);
        ensure!(
            differences == 0,
            "{differences} frontends differ from the API"
        );
        let tables = status["tables"].as_array().context("no tables")?;
        let backends = tables.iter().filter(|table| {
            table["name"]
                .as_str()
                .unwrap_or_default()
                .contains("backends")
        });
        Ok(backends.filter_map(|table| table["used"].as_u64()).sum())
    }
}

/// A number that no other namespace of this suite has.
pub(super) fn next_number() -> u32 {
    // The other suites begin at 0.
    static NUMBER: AtomicU32 = AtomicU32::new(1_000_000);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}
