//! A sandbox with servers, a Consul, and an agent that follows it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use serde_json::{Value, json};
use shunt_tests::{
    Agent, Consul, ConsulSettings, Namespace, PinDir, Sandbox, Target, addresses, agent_binary,
    consul_binary, run, wait_until,
};
use tempfile::TempDir;

/// Time that a change of the catalog takes to be in the kernel, on a machine with much else to do.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Time to wait for an answer that is not to come.
pub(crate) const SILENCE: Duration = Duration::from_millis(700);

/// A request's length.
pub(crate) const REQUEST: usize = 100;

/// Port of the pods.
pub(crate) const SERVED: u16 = 8080;

/// The address of `web`.
pub(crate) const VIP: &str = "10.200.0.1";

/// The frontend of `web` there.
pub(crate) const WEB: &str = "[[frontend]]\nservice = \"web\"\nvip = \"10.200.0.1\"\nport = 80\n";

/// Content of the kernel: the backends of each frontend that take connections, all as text.
pub(crate) type Frontends = BTreeMap<String, BTreeSet<String>>;

/// Settings of a world.
pub(crate) struct Plan {
    pub(crate) consul: ConsulSettings,
    pub(crate) frontends: String,
    pub(crate) flags: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
}

impl Plan {
    /// A Consul on the node, and these frontends.
    pub(crate) fn new(frontends: &str) -> Self {
        Self {
            consul: ConsulSettings::new(addresses::NODE),
            frontends: frontends.to_owned(),
            flags: Vec::new(),
            environment: Vec::new(),
        }
    }
}

/// Everything that a test needs. The agent ends first.
pub(crate) struct World {
    pub(crate) agent: Agent,
    pub(crate) consul: Consul,
    pub(crate) pins: PinDir,
    pub(crate) folder: TempDir,
    pub(crate) sandbox: Sandbox,
    flags: Vec<String>,
    environment: Vec<(String, String)>,
}

/// A sandbox and Consul's binary; `None`, with a word about it, without root or without Consul.
pub(crate) fn ground() -> Option<(Sandbox, PathBuf)> {
    let binary = consul_binary()?;
    Some((Sandbox::serving(SERVED)?, binary))
}

impl World {
    /// With the frontend of `web`, and no instance.
    pub(crate) fn new() -> Option<Self> {
        Self::with(Plan::new(WEB), |_, _, _| {})
    }

    /// As planned; Consul is prepared before the agent starts, which may change the plan for it.
    pub(crate) fn with(
        plan: Plan,
        prepare: impl FnOnce(&Sandbox, &Consul, &mut Plan),
    ) -> Option<Self> {
        let (sandbox, binary) = ground()?;
        let consul = Consul::start(&binary, sandbox.node(), plan.consul.clone()).unwrap();
        Some(Self::around(sandbox, consul, plan, prepare))
    }

    /// Around a Consul that runs and knows an instance a of the service, in pod-a.
    pub(crate) fn with_a(sandbox: Sandbox, consul: Consul, plan: Plan) -> Self {
        Self::around(sandbox, consul, plan, |sandbox, consul, _| {
            let body = registration("a", addresses::POD_A, "passing");
            consul
                .put(sandbox.node(), "/v1/catalog/register", &body)
                .unwrap();
        })
    }

    /// Around a Consul that runs.
    pub(crate) fn around(
        sandbox: Sandbox,
        consul: Consul,
        mut plan: Plan,
        prepare: impl FnOnce(&Sandbox, &Consul, &mut Plan),
    ) -> Self {
        prepare(&sandbox, &consul, &mut plan);
        let Plan {
            consul: _,
            frontends,
            flags,
            environment,
        } = plan;
        let (pins, folder) = (PinDir::new(), tempfile::tempdir().unwrap());
        fs::write(folder.path().join("frontends.toml"), frontends).unwrap();
        let agent = follow(&sandbox, &pins, &folder, &flags, &environment);
        Self {
            agent,
            consul,
            pins,
            folder,
            sandbox,
            flags,
            environment,
        }
    }

    /// The agent is ended so that it cannot prepare for it, something is done, and the next agent starts.
    pub(crate) fn restart(self, meanwhile: impl FnOnce(&mut Consul, &Sandbox)) -> Self {
        let Self {
            agent,
            mut consul,
            pins,
            folder,
            sandbox,
            flags,
            environment,
        } = self;
        assert!(!agent.kill().unwrap().success());
        meanwhile(&mut consul, &sandbox);
        let agent = follow(&sandbox, &pins, &folder, &flags, &environment);
        Self {
            agent,
            consul,
            pins,
            folder,
            sandbox,
            flags,
            environment,
        }
    }

    /// This node.
    pub(crate) fn node(&self) -> &Namespace {
        self.sandbox.node()
    }

    /// The client pod on this node.
    pub(crate) fn pod(&self) -> &Namespace {
        self.sandbox.pod("pod-c").namespace()
    }

    /// Sends Consul a request.
    #[track_caller]
    pub(crate) fn put(&self, path: &str, body: &Value) -> String {
        self.consul.put(self.node(), path, body).unwrap()
    }

    /// Registers what [`registration`] makes.
    #[track_caller]
    pub(crate) fn register(&self, body: &Value) {
        self.put("/v1/catalog/register", body);
    }

    /// Takes an instance of `web` away.
    pub(crate) fn deregister(&self, id: &str) {
        let body = json!({ "Node": "n2", "ServiceID": id });
        self.put("/v1/catalog/deregister", &body);
    }

    /// Returns the output of `shunt` at the agent's socket, as JSON.
    pub(crate) fn shunt(&self, command: &str) -> Value {
        let socket = self.agent.socket().to_str().unwrap();
        let arguments = [command, "--socket", socket, "-o", "json"];
        let said = run(agent_binary().to_str().unwrap(), &arguments);
        serde_json::from_str(&said.unwrap()).unwrap()
    }

    /// Returns the text of `shunt status` for people.
    pub(crate) fn status_text(&self) -> String {
        let socket = self.agent.socket().to_str().unwrap();
        let arguments = ["status", "--socket", socket];
        run(agent_binary().to_str().unwrap(), &arguments).unwrap()
    }

    /// Returns the agent's report on its source.
    pub(crate) fn source(&self) -> Value {
        self.shunt("status")["consul"].clone()
    }

    /// Returns the content of the kernel.
    pub(crate) fn frontends(&self) -> Frontends {
        let services = self.shunt("services");
        let frontends = services.as_array().unwrap().iter();
        let port = |value: &Value| value.as_u64().unwrap() as u16;
        let at = |address: &Value, number: &Value| {
            let ip: IpAddr = address.as_str().unwrap().parse().unwrap();
            SocketAddr::new(ip, port(number))
        };
        frontends
            .map(|frontend| {
                let key = at(&frontend["address"], &frontend["port"]);
                let backends = frontend["backends"].as_array().unwrap().iter();
                let taking = backends.filter(|backend| backend["weight"] != 0);
                let backends =
                    taking.map(|backend| at(&backend["ip"], &backend["port"]).to_string());
                (key.to_string(), backends.collect())
            })
            .collect()
    }

    /// The backends of `web` that take connections.
    pub(crate) fn backends(&self) -> BTreeSet<String> {
        let mut frontends = self.frontends();
        frontends.remove("10.200.0.1:80").unwrap_or_default()
    }

    /// Waits until the kernel has exactly these backends of `web`.
    #[track_caller]
    pub(crate) fn await_backends(&self, ips: &[IpAddr]) {
        let expected = ips.iter().map(|ip| format!("{ip}:{SERVED}")).collect();
        let mut last = BTreeSet::new();
        let found = wait_until("the backends of web", SOON, || {
            last = self.backends();
            (last == expected).then_some(())
        });
        assert!(
            found.is_ok(),
            "{last:?}, not {expected:?}\n{:#}\nlog:\n{}",
            self.source(),
            self.agent.log()
        );
    }

    /// Waits until clients in the client pod get answers from exactly these pods.
    #[track_caller]
    pub(crate) fn await_pods(&self, pods: &[&str]) {
        let expected: BTreeSet<String> = pods.iter().map(|pod| (*pod).to_owned()).collect();
        let target = web().within(SILENCE);
        let mut last = None;
        let found = wait_until("the right pods answer", SOON, || {
            let tally = self.pod().enter(|| target.ask_times(24, REQUEST));
            let names = tally.shares.values().map(|share| share.name.clone());
            let is_right = tally.failures.is_empty() && names.collect::<BTreeSet<_>>() == expected;
            last = Some(tally);
            is_right.then_some(())
        });
        assert!(
            found.is_ok(),
            "{last:#?}, not {pods:?}\nlog:\n{}",
            self.agent.log()
        );
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

/// A registration in the catalog: an instance of `web` on the node n2, with a check.
pub(crate) fn registration(id: &str, address: IpAddr, status: &str) -> Value {
    json!({
        "Node": "n2",
        "Address": addresses::NODE2.to_string(),
        "SkipNodeUpdate": false,
        "Service": { "Service": "web", "ID": id, "Address": address.to_string(), "Port": SERVED },
        "Checks": [{
            "Node": "n2", "CheckID": format!("c-{id}"), "Name": "c", "Status": status, "ServiceID": id
        }],
    })
}

/// A client of `web`.
pub(crate) fn web() -> Target {
    Target::tcp(SocketAddr::new(VIP.parse().unwrap(), 80))
}

/// Returns whether everything that is followed is up to date.
pub(crate) fn is_current(source: &Value) -> bool {
    source["synced"] == true && source["stale"].as_array().is_some_and(Vec::is_empty)
}

/// Returns whether something is not.
pub(crate) fn is_stale(source: &Value) -> bool {
    source["stale"]
        .as_array()
        .is_some_and(|stale| !stale.is_empty())
}

fn follow(
    sandbox: &Sandbox,
    pins: &PinDir,
    folder: &TempDir,
    further: &[String],
    environment: &[(String, String)],
) -> Agent {
    let file = folder.path().join("frontends.toml");
    let state = folder.path().join("consul.json");
    let mut flags = Vec::new();
    for (flag, path) in [("--consul-config", file), ("--consul-state", state)] {
        flags.extend([flag.to_owned(), path.display().to_string()]);
    }
    for cidr in [addresses::POD_CIDR, addresses::POD_CIDR_V6] {
        flags.extend(["--pod-cidr".to_owned(), cidr.to_owned()]);
    }
    for interface in ["eth0", "eth1", "pod-a", "pod-b", "pod-c"] {
        flags.extend(["--interface".to_owned(), interface.to_owned()]);
    }
    for (flag, size) in [
        ("--max-frontends", "1024"),
        ("--max-slots", "8192"),
        ("--max-backends", "4096"),
        ("--max-conntrack", "65536"),
    ] {
        flags.extend([flag.to_owned(), size.to_owned()]);
    }
    flags.extend(further.iter().cloned());
    let environment: Vec<(&str, &str)> = environment
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    let binary = agent_binary();
    Agent::follow_consul(&binary, sandbox.node(), pins, &environment, &flags).unwrap()
}
