//! A revision of Shunt: its agent as a process, and the programs that this has loaded, whatever
//! their tables are like.
//!
//! An agent that does not run has no part in what is measured, so it is stopped (SIGSTOP) while
//! it has no request: what it would sweep, for example, would be in the caches.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use aya::programs::{ProgramFd, loaded_programs};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use shunt_common::Counter;
use shunt_tests::{Agent, Namespace, PinDir, run};

use super::{
    node::{POD_CIDRS, resync},
    opened::Programs,
};

/// The interface that the programs are at, of which nothing comes.
const INTERFACE: &str = "eth0";

/// A revision. Dropping it ends the agent first, then removes what it has pinned.
pub(super) struct Revision {
    binary: PathBuf,
    agent: Agent,
    ingress: ProgramFd,
    egress: ProgramFd,
    _pins: PinDir,
    _namespace: Namespace,
}

impl Revision {
    /// The revision of this agent, with one service and one without backends, and room for so many
    /// conntrack entries. `number` makes its namespace's name unique.
    ///
    /// # Errors
    ///
    /// If the agent does not start, or refuses the event.
    pub(super) fn start(binary: &Path, number: u32, conntrack: u32) -> Result<Self> {
        let namespace = Namespace::new(number, "revision")?;
        namespace.configure(&format!("link add {INTERFACE} type veth peer name peer\n"))?;
        for setting in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
            namespace.set(setting, "1")?;
        }
        let pins = PinDir::new();
        let [pods, pods_v6] = POD_CIDRS;
        let conntrack = conntrack.to_string();
        let flags = [
            "--pod-cidr",
            pods,
            "--pod-cidr",
            pods_v6,
            "--max-conntrack",
            &conntrack,
        ];
        let mut agent = Agent::start(binary, &namespace, &pins, &flags)?;
        agent.apply_all(&[resync(1, &[INTERFACE])])?;
        let program = |name| program(&agent, name);
        let revision = Self {
            binary: binary.to_owned(),
            ingress: program("tc_ingress")?,
            egress: program("tc_egress")?,
            agent,
            _pins: pins,
            _namespace: namespace,
        };
        revision.signal(Signal::SIGSTOP)?;
        Ok(revision)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.agent.pid().cast_signed()), signal)
            .context("cannot signal an agent")
    }
}

impl Programs for Revision {
    fn ingress(&mut self) -> Result<ProgramFd> {
        self.ingress.try_clone().context("cannot keep a program")
    }

    fn egress(&mut self) -> Result<ProgramFd> {
        self.egress.try_clone().context("cannot keep a program")
    }

    fn count(&self, counter: Counter) -> Result<u64> {
        let socket = self.agent.socket().to_string_lossy();
        let status = ["status", "-o", "json", "--socket", &socket];
        self.signal(Signal::SIGCONT)?;
        let text = run(&self.binary.to_string_lossy(), &status);
        self.signal(Signal::SIGSTOP)?;
        let status: Value = serde_json::from_str(&text?).context("the status is not JSON")?;
        let counters = status["counters"].as_object();
        // A counter that nothing was counted by may be left out.
        let counters = counters.context("the status has no counters")?;
        Ok(counters
            .get(counter.name())
            .and_then(Value::as_u64)
            .unwrap_or(0))
    }
}

impl Drop for Revision {
    fn drop(&mut self) {
        // Then it can take the signal to end.
        drop(self.signal(Signal::SIGCONT));
    }
}

/// The program of this name that the agent holds.
fn program(agent: &Agent, name: &str) -> Result<ProgramFd> {
    let held = agent.programs()?;
    for program in loaded_programs() {
        // Others may unload theirs meanwhile.
        let Ok(program) = program else { continue };
        if held.contains(&program.id()) && program.name_as_str() == Some(name) {
            return program.fd().context("cannot open a program");
        }
    }
    bail!("the agent has no program {name} loaded");
}
