//! An agent that follows a catalog.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde_json::Value;
use shunt_tests::{Agent, PinDir, interrupt, run};

use super::world::{ALL, ALL_INSTANCES, Way, World};
use crate::machine::{frontends::Frontends, process, tables};

/// An agent in the catalog's namespace. All of it goes when it is dropped.
pub(super) struct Follower<'a> {
    // In the order in which they are to go.
    agent: Agent,
    binary: PathBuf,
    _pins: PinDir,
    world: &'a World,
    pub(super) way: Way,
}

impl<'a> Follower<'a> {
    /// Starts an agent, and waits until all services are in the kernel. Returns how long that took.
    ///
    /// # Errors
    ///
    /// If they never are.
    pub(super) fn complete(
        binary: &Path,
        world: &'a World,
        way: Way,
    ) -> Result<(Self, Frontends, Duration)> {
        interrupt::check()?;
        let pins = PinDir::new();
        let file = world.frontends()?;
        let file = file.to_str().context("a path that is no text")?;
        let flags = ["--consul-config", file, "--interface", "lo"];
        let (address, authority) = (format!("127.0.0.1:{}", way.port()), world.authority());
        let mut environment = vec![("CONSUL_HTTP_ADDR", &*address), ("RUST_LOG", "info")];
        if way == Way::Https {
            environment.extend([("CONSUL_HTTP_SSL", "true"), ("CONSUL_CACERT", &authority)]);
        }
        environment.extend(world.token().map(|token| ("CONSUL_HTTP_TOKEN", token)));
        let begin = Instant::now();
        let agent = Agent::follow_consul(binary, &world.namespace, &pins, &environment, &flags)?;
        let (frontends, there) = Frontends::await_all(pins.path(), ALL)?;
        let follower = Self {
            agent,
            binary: binary.to_owned(),
            _pins: pins,
            world,
            way,
        };
        Ok((follower, frontends, there.saturating_duration_since(begin)))
    }

    /// Returns the processor time of its threads, in seconds.
    ///
    /// # Errors
    ///
    /// If it is gone.
    pub(super) fn busy(&self) -> Result<f64> {
        process::processor_seconds(self.agent.pid())
    }

    /// Returns the number of events that it has applied.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub(super) fn applied(&self) -> Result<u64> {
        let (binary, socket) = (self.binary.to_string_lossy(), self.agent.socket());
        let socket = socket.to_string_lossy();
        let status = run(&binary, &["status", "-o", "json", "--socket", &*socket])?;
        let status: Value = serde_json::from_str(&status).context("cannot read the status")?;
        status["applied"].as_u64().context("no count of events")
    }

    /// Returns the number of its sockets that are connected to Consul.
    ///
    /// # Errors
    ///
    /// If the kernel does not report it.
    pub(super) fn sockets(&self) -> Result<usize> {
        let table = || fs::read_to_string("/proc/thread-self/net/tcp");
        let table = self.world.namespace.enter(table)?;
        let own = process::sockets(self.agent.pid())?;
        // Connected (01) to Consul's port, of whatever local port.
        let port = format!(":{:04X}", self.way.port());
        let lines = table.lines().filter(|line| {
            let mut fields = line.split_whitespace();
            let remote = fields.nth(2).unwrap_or_default();
            let is_connected = remote.ends_with(&port) && fields.next() == Some("01");
            let inode = fields.nth(5).and_then(|inode| inode.parse().ok());
            is_connected && inode.is_some_and(|inode| own.contains(&inode))
        });
        Ok(lines.count())
    }

    /// Makes sure that the kernel's tables, read back, match the catalog, and hold all instances
    /// once what was replaced is free.
    ///
    /// # Errors
    ///
    /// If they do not.
    pub(super) fn check(&self) -> Result<()> {
        tables::await_backends(&self.agent, &self.binary, ALL_INSTANCES)
    }
}
