//! A sandbox with servers, an API server, and an agent that follows it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;
use shunt_tests::{
    Agent, ApiServer, Failure, Namespace, PinDir, Sandbox, Target, addresses, agent_binary, run,
    wait_until,
};

use crate::objects::{NODE_NAME, SERVED, node, ready, service, slice};

/// Time that a change of the API takes to be in the kernel, on a machine with much else to do.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// Time to wait for an answer that is not to come.
pub(crate) const SILENCE: Duration = Duration::from_millis(700);

/// A request's length.
pub(crate) const REQUEST: usize = 100;

/// Content of the kernel: the backends of each frontend, all as text.
pub(crate) type Frontends = BTreeMap<String, BTreeSet<String>>;

/// Source of the agent's knowledge of the pods on its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pods {
    /// By their ranges, as flags.
    ByFlag,
    /// Not at all: the Node may name the range.
    ByNode,
}

/// Everything that a test needs. The agent ends first.
pub(crate) struct World {
    pub(crate) agent: Agent,
    pub(crate) server: ApiServer,
    pub(crate) pins: PinDir,
    pub(crate) sandbox: Sandbox,
}

impl World {
    /// A cluster of two nodes without a service. `None`, with a word about it, without root.
    pub(crate) fn new() -> Option<Self> {
        Self::with(&[], |server| {
            server.put(node("node-1", addresses::NODE));
            server.put(node("node-2", addresses::NODE2));
        })
    }

    /// A cluster with the service `web` at this ClusterIP, which pod-a answers already.
    pub(crate) fn with_web(ip: &str) -> Option<Self> {
        let world = Self::new()?;
        world.server.put(service("web", ip));
        world
            .server
            .put(slice("web", "4", &[ready(addresses::POD_A)]));
        world.await_pods(world.pod(), tcp(ip, 80), &["pod-a"]);
        Some(world)
    }

    /// A cluster that `prepare` makes, and an agent with further flags.
    pub(crate) fn with(flags: &[&str], prepare: impl FnOnce(&ApiServer)) -> Option<Self> {
        Self::start(flags, Pods::ByFlag, |_, server| prepare(server))
    }

    /// As [`Self::with`], of a node that is prepared as well, and an agent that knows its pods so.
    pub(crate) fn start(
        flags: &[&str],
        pods: Pods,
        prepare: impl FnOnce(&Sandbox, &ApiServer),
    ) -> Option<Self> {
        let sandbox = Sandbox::serving(SERVED)?;
        let server = ApiServer::start(sandbox.node()).unwrap();
        prepare(&sandbox, &server);
        let pins = PinDir::new();
        let agent = follow(&sandbox, &server, &pins, pods, flags);
        Some(Self {
            agent,
            server,
            pins,
            sandbox,
        })
    }

    /// The agent is ended by `end`, something is done, and the next agent follows the server.
    pub(crate) fn restart(
        self,
        end: impl FnOnce(Agent),
        meanwhile: impl FnOnce(&mut ApiServer, &Sandbox),
    ) -> Self {
        let Self {
            agent,
            mut server,
            pins,
            sandbox,
        } = self;
        end(agent);
        meanwhile(&mut server, &sandbox);
        let agent = follow(&sandbox, &server, &pins, Pods::ByFlag, &[]);
        Self {
            agent,
            server,
            pins,
            sandbox,
        }
    }

    /// The client pod on this node.
    pub(crate) fn pod(&self) -> &Namespace {
        self.sandbox.pod("pod-c").namespace()
    }

    /// Returns the output of `shunt` at the agent's socket, as JSON.
    pub(crate) fn shunt(&self, command: &str) -> Value {
        let binary = agent_binary();
        let socket = self.agent.socket().to_str().unwrap();
        let said = run(
            binary.to_str().unwrap(),
            &[command, "--socket", socket, "-o", "json"],
        );
        serde_json::from_str(&said.unwrap()).unwrap()
    }

    /// Returns the text of `shunt status` for people.
    pub(crate) fn status_text(&self) -> String {
        let socket = self.agent.socket();
        let mut command = Command::new(agent_binary());
        let output = command.arg("status").arg("--socket").arg(socket).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    /// Returns the agent's report on its source.
    pub(crate) fn source(&self) -> Value {
        self.shunt("status")["source"].clone()
    }

    /// Returns the content of the kernel.
    pub(crate) fn frontends(&self) -> Frontends {
        let services = self.shunt("services");
        let frontends = services.as_array().unwrap().iter();
        frontends
            .map(|frontend| {
                let at = |value: &Value| {
                    let ip: IpAddr = value.as_str().unwrap().parse().unwrap();
                    ip
                };
                let port = |value: &Value| value.as_u64().unwrap() as u16;
                let key = SocketAddr::new(at(&frontend["address"]), port(&frontend["port"]));
                let backends = frontend["backends"].as_array().unwrap().iter();
                let taking = backends.filter(|backend| backend["weight"] != 0);
                let backends = taking.map(|backend| {
                    SocketAddr::new(at(&backend["ip"]), port(&backend["port"])).to_string()
                });
                let protocol = frontend["protocol"].as_str().unwrap();
                (format!("{key}/{protocol}"), backends.collect())
            })
            .collect()
    }

    /// Waits until the kernel has exactly this.
    #[track_caller]
    pub(crate) fn await_frontends(&self, expected: &Frontends) {
        let mut last = Frontends::new();
        let found = wait_until("the kernel has what the API says", SOON, || {
            last = self.frontends();
            (last == *expected).then_some(())
        });
        if found.is_err() {
            let log = self.agent.log();
            panic!("in the kernel: {last:#?}\nexpected: {expected:#?}\nlog:\n{log}");
        }
    }

    /// Waits until clients in the namespace get answers from exactly these pods.
    #[track_caller]
    pub(crate) fn await_pods(&self, from: &Namespace, target: Target, pods: &[&str]) {
        let expected: BTreeSet<String> = pods.iter().map(|pod| (*pod).to_owned()).collect();
        let target = target.within(SILENCE);
        let mut last = None;
        let found = wait_until("the right pods answer", SOON, || {
            let tally = from.enter(|| target.ask_times(24, REQUEST));
            let names = tally.shares.values().map(|share| share.name.clone());
            let is_right = tally.failures.is_empty() && names.collect::<BTreeSet<_>>() == expected;
            last = Some(tally);
            is_right.then_some(())
        });
        assert!(
            found.is_ok(),
            "{target:?}: {last:#?}, not {pods:?}\nlog:\n{}",
            self.agent.log()
        );
    }

    /// Waits until a client in the namespace fails by `is_right`.
    #[track_caller]
    pub(crate) fn await_failure(
        &self,
        from: &Namespace,
        target: Target,
        is_right: impl Fn(&Failure) -> bool,
    ) {
        // A refusal that comes while connect(2) is still at it counts at the next SYN, a second later.
        let target = if is_right(&Failure::TimedOut) {
            target.within(SILENCE)
        } else {
            target
        };
        let mut last = None;
        let found = wait_until("the right failure", SOON, || {
            let outcome = from.enter(|| target.ask(REQUEST));
            let is_right = outcome.as_ref().is_err_and(&is_right);
            last = Some(outcome);
            is_right.then_some(())
        });
        if found.is_err() {
            let counters = &self.shunt("status")["counters"];
            panic!(
                "{target:?}: {last:?}\n{counters:#}\nlog:\n{}",
                self.agent.log()
            );
        }
    }

    /// Waits until the agent's report on its source is right.
    #[track_caller]
    pub(crate) fn await_source(&self, what: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let found = wait_until(what, SOON, || {
            last = self.source();
            is_right(&last).then(|| last.clone())
        });
        found.unwrap_or_else(|error| panic!("{error}: {last:#}\nlog:\n{}", self.agent.log()))
    }
}

/// Waits until nothing has been asked for a second, and returns the paths that were asked for since there
/// were `known` requests.
#[track_caller]
pub(crate) fn await_silence(server: &ApiServer, known: usize) -> Vec<String> {
    let (mut count, mut since) = (0, Instant::now());
    wait_until("nothing is asked any more", SOON, || {
        let now = server.requests().len();
        if now != count {
            (count, since) = (now, Instant::now());
        }
        (since.elapsed() > Duration::from_secs(1)).then_some(())
    })
    .unwrap();
    let requests = server.requests().into_iter().skip(known);
    let paths = requests.map(|uri| uri.split('?').next().unwrap_or_default().to_owned());
    paths.collect()
}

/// Ends an agent so that it cannot prepare for it.
pub(crate) fn kill(agent: Agent) {
    let status = agent.kill().unwrap();
    assert!(!status.success());
}

/// Refused at once.
pub(crate) fn is_refused(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused)
}

/// No answer at all.
pub(crate) fn is_silent(failure: &Failure) -> bool {
    matches!(failure, Failure::TimedOut)
}

/// A TCP client of this address and port.
pub(crate) fn tcp(ip: &str, port: u16) -> Target {
    Target::tcp(SocketAddr::new(ip.parse().unwrap(), port))
}

/// Returns the flags by which an agent follows the server, besides the sizes of its tables.
pub(crate) fn follow_flags(server: &ApiServer, pods: Pods) -> Vec<&str> {
    let mut flags = vec!["--kubeconfig", server.kubeconfig()];
    flags.extend(["--hostname-override", NODE_NAME]);
    if pods == Pods::ByFlag {
        flags.extend([
            "--pod-cidr",
            addresses::POD_CIDR,
            "--pod-cidr",
            addresses::POD_CIDR_V6,
        ]);
    }
    for interface in ["eth0", "eth1", "pod-a", "pod-b", "pod-c"] {
        flags.extend(["--interface", interface]);
    }
    flags
}

/// Starts an agent that follows the server.
pub(crate) fn follow(
    sandbox: &Sandbox,
    server: &ApiServer,
    pins: &PinDir,
    pods: Pods,
    further: &[&str],
) -> Agent {
    let mut flags = follow_flags(server, pods);
    flags.extend([
        "--max-frontends",
        "256",
        "--max-slots",
        "4096",
        "--max-backends",
        "1024",
    ]);
    flags.extend(["--max-conntrack", "65536"]);
    flags.extend(further);
    Agent::follow(&agent_binary(), sandbox.node(), pins, &flags).unwrap()
}
