//! A sandbox with servers and an agent.

use std::{
    env,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Result;
use serde_json::Value;
use shunt_tests::{
    Ack, Agent, ForeignSources, Namespace, PinDir, Sandbox, Tally, Target, addresses, agent_binary,
};

use crate::service::Service;

/// The port of every server.
pub(crate) const SERVED: u16 = 8080;

/// A request's length where it does not matter.
pub(crate) const REQUEST: usize = 100;

/// Number of conntrack entries that there is room for where it does not matter.
const CONNTRACK: &str = "65536";

/// Everything that a test needs. The agent ends first, then what it has pinned, then the sandbox.
pub(crate) struct World {
    pub(crate) agent: Agent,
    pub(crate) pins: PinDir,
    pub(crate) sandbox: Sandbox,
}

impl World {
    /// A sandbox whose backend pods serve, and an agent that knows the nodes and the interfaces
    /// but no service. `None`, with a word about it, without root.
    pub(crate) fn new() -> Option<Self> {
        Self::with_flags(&[])
    }

    /// As [`Self::new`], with room for this many conntrack entries, two a connection.
    pub(crate) fn with_conntrack(entries: &str) -> Option<Self> {
        Self::with_flags(&["--max-conntrack", entries])
    }

    /// As [`Self::new`], with further flags for the agent.
    pub(crate) fn with_flags(flags: &[&str]) -> Option<Self> {
        Self::of(&binary(), flags)
    }

    /// As [`Self::with_flags`], with the agent of another version.
    pub(crate) fn of(binary: &Path, flags: &[&str]) -> Option<Self> {
        let sandbox = Sandbox::serving(SERVED)?;
        let pins = PinDir::new();
        let mut world = Unattended { pins, sandbox }.start_of(binary, flags);
        world.apply(&resync());
        Some(world)
    }

    /// Kills the agent.
    #[must_use]
    pub(crate) fn killed(self) -> Unattended {
        let Self {
            agent,
            pins,
            sandbox,
        } = self;
        agent.kill().unwrap();
        Unattended { pins, sandbox }
    }

    /// Ends the agent, with success.
    #[must_use]
    pub(crate) fn stopped(self) -> Unattended {
        let Self {
            agent,
            pins,
            sandbox,
        } = self;
        assert!(agent.stop().unwrap().success());
        Unattended { pins, sandbox }
    }

    /// Applies an event that the agent must accept.
    pub(crate) fn apply(&mut self, event: &str) {
        if let Ack::Refused(reason) = self.agent.apply(event).unwrap() {
            panic!("the agent refuses {event}\nbecause {reason}");
        }
    }

    /// The writes to the kernel's tables that an event leads to, which the agent must accept.
    pub(crate) fn writes(&mut self, event: &str) -> u64 {
        match self.agent.apply(event).unwrap() {
            Ack::Applied { writes, .. } => writes,
            Ack::Refused(reason) => panic!("the agent refuses {event}\nbecause {reason}"),
        }
    }

    /// Adds a service.
    pub(crate) fn add(&mut self, service: &Service) {
        self.apply(&service.event("AddService"));
    }

    /// Replaces a service.
    pub(crate) fn update(&mut self, service: &Service) {
        self.apply(&service.event("UpdateService"));
    }

    /// The client pod on this node.
    pub(crate) fn client_pod(&self) -> &Namespace {
        self.sandbox.pod("pod-c").namespace()
    }

    /// The address of a pod's server.
    pub(crate) fn backend(&self, pod: &str) -> SocketAddr {
        self.sandbox.pod(pod).at(SERVED)
    }

    /// The IPv6 address of a pod's server.
    pub(crate) fn backend_v6(&self, pod: &str) -> SocketAddr {
        self.sandbox.pod(pod).at_v6(SERVED)
    }

    /// Opens connections from the client pod, all of which must be answered.
    pub(crate) fn ask_from_pod(&self, target: Target, times: u32) -> Tally {
        all_answered(self.client_pod(), target, times)
    }
}

/// A world whose agent has ended: what that pinned is there.
pub(crate) struct Unattended {
    pub(crate) pins: PinDir,
    pub(crate) sandbox: Sandbox,
}

impl Unattended {
    /// Starts the next agent, with further flags.
    #[must_use]
    pub(crate) fn start(self, flags: &[&str]) -> World {
        self.start_of(&binary(), flags)
    }

    /// As [`Self::start`], with the agent of another version.
    #[must_use]
    pub(crate) fn start_of(self, binary: &Path, flags: &[&str]) -> World {
        let agent = self.try_start_of(binary, flags).unwrap();
        self.attended_by(agent)
    }

    /// Starts an agent where it may refuse to.
    pub(crate) fn try_start_of(&self, binary: &Path, flags: &[&str]) -> Result<Agent> {
        try_start_agent_with(binary, self.sandbox.node(), &self.pins, flags)
    }

    /// The world with an agent that was started for it.
    #[must_use]
    pub(crate) fn attended_by(self, agent: Agent) -> World {
        let Self { pins, sandbox } = self;
        World {
            agent,
            pins,
            sandbox,
        }
    }
}

/// Opens connections from a namespace; every one must be answered, and the backend must see the
/// client's own address.
pub(crate) fn all_answered(from: &Namespace, target: Target, times: u32) -> Tally {
    let tally = answered(from, target, times);
    assert_eq!(
        tally.foreign_sources,
        ForeignSources::new(),
        "the backends must see the client's own address with {target:?}"
    );
    tally
}

/// Opens connections from outside to a frontend; every one must be answered, and backends on the
/// other node must see this one.
pub(crate) fn all_answered_outside(outside: &Namespace, target: Target, times: u32) -> Tally {
    let tally = answered(outside, target, times);
    assert_eq!(
        tally.foreign_sources,
        tally.sources_from_outside(),
        "remote backends, and only they, must see this node's address with {target:?}"
    );
    tally
}

fn answered(from: &Namespace, target: Target, times: u32) -> Tally {
    let tally = from.enter(|| target.ask_times(times, REQUEST));
    assert!(
        tally.failures.is_empty(),
        "every connection from {from:?} with {target:?} must be answered, but: {tally:#?}"
    );
    tally
}

/// Starts the agent of this version in a namespace, with further flags, where it may refuse to.
pub(crate) fn try_start_agent_with(
    binary: &Path,
    node: &Namespace,
    pins: &PinDir,
    further: &[&str],
) -> Result<Agent> {
    // Small tables can be read whole by a test.
    let mut flags = vec!["--pod-cidr", addresses::POD_CIDR];
    if !further.contains(&"ipv4") {
        flags.extend(["--pod-cidr", addresses::POD_CIDR_V6]);
    }
    for size in [
        ["--max-frontends", "64"],
        ["--max-slots", "1024"],
        ["--max-backends", "256"],
        ["--max-conntrack", CONNTRACK],
    ] {
        if !further.contains(&size[0]) {
            flags.extend(size);
        }
    }
    flags.extend(further);
    let redirects = env::var_os("SHUNT_REDIRECT").is_some();
    if redirects && !further.contains(&"--redirect") {
        flags.push("--redirect");
    }
    Agent::start(binary, node, pins, &flags)
}

/// The first event: two nodes, all interfaces of this node, no services.
pub(crate) fn resync() -> String {
    serde_json::json!({
        "event": "Resync",
        "node_ips": [addresses::NODE, addresses::NODE2],
        "services": [],
        "frontend_ifs": ["eth0", "eth1", "pod-a", "pod-b", "pod-c"],
        "backend_ifs": ["pod-a", "pod-b"],
    })
    .to_string()
}

/// As [`resync`], with these services.
pub(crate) fn resync_with(services: &[Value]) -> String {
    let mut event: Value = serde_json::from_str(&resync()).unwrap();
    event["services"] = services.into();
    event.to_string()
}

/// The agent's binary.
pub(crate) fn binary() -> PathBuf {
    agent_binary()
}
