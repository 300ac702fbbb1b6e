//! An agent with which services are registered.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;
use serde_json::{Value, json};
use shunt_tests::{
    Agent, HttpAnswer, PinDir, Sandbox, SocketPath, Target, addresses, http_ask, patience,
    wait_until,
};

use crate::{
    command::shunt_at,
    world::{REQUEST, SERVED, binary},
};

/// Address of the frontend of service `web`.
pub(super) const VIP: &str = "10.96.0.10:80";

/// Time that a change may take to get to the kernel, with much else to do on the machine.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// The frontends that there are.
const FRONTENDS: &str = "[[frontend]]\nservice = \"web\"\nvip = \"10.96.0.10\"\nport = 80\n";

/// A folder for what an agent keeps, and the socket where services are registered.
#[derive(Debug)]
pub(super) struct Kept {
    socket: SocketPath,
    /// Its folder is there as long as this is.
    files: SocketPath,
}

impl Kept {
    pub(super) fn new() -> Self {
        let files = SocketPath::new();
        fs::create_dir_all(files.path().parent().unwrap()).unwrap();
        let kept = Self {
            socket: SocketPath::new(),
            files,
        };
        fs::write(kept.frontends(), FRONTENDS).unwrap();
        kept
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().with_file_name(name)
    }

    pub(super) fn state(&self) -> PathBuf {
        self.file("local.json")
    }

    pub(super) fn frontends(&self) -> PathBuf {
        self.file("frontends.toml")
    }

    /// The addresses on which instances have agreed.
    pub(super) fn addresses(&self) -> PathBuf {
        self.file("local.json.addresses")
    }

    pub(super) fn definitions(&self) -> PathBuf {
        self.file("services.json")
    }

    pub(super) fn socket(&self) -> &Path {
        self.socket.path()
    }

    /// The flags of an agent that keeps its registrations here.
    pub(super) fn flags(&self) -> Vec<String> {
        let place = format!("unix:{}", self.socket().display());
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let flags = [
            ("--local-api", place),
            ("--local-state", text(self.state())),
            ("--local-frontends", text(self.frontends())),
            ("--local-address", addresses::NODE.to_string()),
        ];
        let flags = flags.map(|(name, value)| [name.to_owned(), value]);
        let mut flags = flags.concat();
        for interface in ["eth0", "eth1", "pod-a", "pod-b", "pod-c"] {
            flags.extend(["--interface".to_owned(), interface.to_owned()]);
        }
        flags.extend(["--pod-cidr".to_owned(), addresses::POD_CIDR.to_owned()]);
        flags
    }

    /// Asks the agent that is there.
    pub(super) fn try_ask(&self, method: &str, path: &str, body: &str) -> Result<HttpAnswer> {
        let stream = UnixStream::connect(self.socket())?;
        stream.set_read_timeout(Some(patience(SOON)))?;
        http_ask(stream, method, path, &["Host: local"], body)
    }

    pub(super) fn ask(&self, method: &str, path: &str, body: &str) -> HttpAnswer {
        self.try_ask(method, path, body).unwrap()
    }

    /// Has something done, which must work.
    pub(super) fn put(&self, path: &str, body: &Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = self.ask("PUT", &format!("/v1/agent/{path}"), &body);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }

    pub(super) fn register(&self, service: &Value) {
        self.put("service/register", service);
    }

    pub(super) fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", &format!("/v1/agent/{path}"), "");
        serde_json::from_str(&answer.body).unwrap()
    }

    /// The hash of a service's content.
    pub(super) fn hash(&self, id: &str) -> String {
        let service = self.get(&format!("service/{id}"));
        service["ContentHash"].as_str().unwrap().to_owned()
    }
}

/// A sandbox with servers and such an agent. The agent ends first.
pub(super) struct Place {
    pub(super) agent: Agent,
    pub(super) pins: PinDir,
    pub(super) kept: Kept,
    pub(super) sandbox: Sandbox,
}

impl Place {
    /// `None`, with a word about it, without root.
    pub(super) fn new() -> Option<Self> {
        Self::with(Kept::new(), &[])
    }

    /// With further flags, which may name what is kept.
    pub(super) fn with(kept: Kept, further: &[&str]) -> Option<Self> {
        let mut flags = kept.flags();
        flags.extend(further.iter().map(|&flag| flag.to_owned()));
        Self::with_all(kept, &flags)
    }

    /// With these flags, which name what is kept.
    pub(super) fn with_all(kept: Kept, flags: &[String]) -> Option<Self> {
        let sandbox = Sandbox::serving(SERVED)?;
        let pins = PinDir::new();
        let agent = Agent::alone(&binary(), sandbox.node(), &pins, flags).unwrap();
        Some(Self {
            agent,
            pins,
            kept,
            sandbox,
        })
    }

    /// Kills the agent and starts the next one.
    #[must_use]
    pub(super) fn killed_and_started(self) -> Self {
        let Self {
            agent,
            pins,
            kept,
            sandbox,
        } = self;
        agent.kill().unwrap();
        let agent = Agent::alone(&binary(), sandbox.node(), &pins, &kept.flags()).unwrap();
        Self {
            agent,
            pins,
            kept,
            sandbox,
        }
    }

    /// The address of a pod's server.
    pub(super) fn backend(&self, pod: &str) -> SocketAddr {
        self.sandbox.pod(pod).at(SERVED)
    }

    /// The instance of service `web` in a pod.
    pub(super) fn web(&self, pod: &str) -> Value {
        let backend = self.backend(pod);
        json!({
            "Name": "web", "ID": pod, "Address": backend.ip(), "Port": backend.port(),
        })
    }

    /// Waits until these pods, and no others, answer the clients of the frontend.
    pub(super) fn is_served_by(&self, pods: &[&str]) {
        let mut expected: Vec<SocketAddr> = pods.iter().map(|pod| self.backend(pod)).collect();
        expected.sort();
        let target = Target::tcp(VIP.parse().unwrap()).within(Duration::from_secs(1));
        let client = self.sandbox.pod("pod-c").namespace();
        let mut last = String::new();
        let served = wait_until(&format!("answers of {pods:?} alone"), SOON, || {
            let times = if pods.is_empty() { 1 } else { 24 };
            let tally = client.enter(|| target.ask_times(times, REQUEST));
            let mut found = tally.backends();
            found.sort();
            let all_answered = pods.is_empty() || tally.failures.is_empty();
            last = format!("{tally:?}");
            (found == expected && all_answered).then_some(())
        });
        if let Err(error) = served {
            panic!("{error:#}: {last}; its log:\n{}", self.agent.log());
        }
    }

    /// Returns the agent's registrations as it shows them.
    pub(super) fn shown(&self) -> Value {
        let status = shunt_at(self.agent.socket(), &["status", "-o", "json"], "").json();
        status["local_api"].clone()
    }

    /// Waits until so many clients wait for a service to change.
    pub(super) fn are_waiting(&self, count: u64) {
        let waits = || (self.shown()["waiting"] == count).then_some(());
        if let Err(error) = wait_until(&format!("{count} who wait"), SOON, waits) {
            panic!("{error:#}: {}", self.shown());
        }
    }
}

/// Connects to where services are registered over TCP, in the thread's namespace.
pub(super) fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(patience(SOON))).unwrap();
    stream
}
