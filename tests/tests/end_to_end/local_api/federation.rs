//! Three datacenters know each other's gateways without Consul: dc1 is the primary, on the second node;
//! dc2 is this node, with the client; dc3 is outside.

use std::{
    collections::BTreeSet,
    fs,
    net::{IpAddr, SocketAddr},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shunt_tests::{
    Agent, HttpAnswer, Namespace, PinDir, Sandbox, SocketPath, Target, addresses, http_ask,
    http_send, patience, wait_until,
};
use tempfile::TempDir;

use super::place::{SOON, VIP};
use crate::{
    command::{shunt, shunt_at},
    world::{REQUEST, SERVED, binary},
};

/// Address where the primary serves the others, on the second node.
const PRIMARY: &str = "192.168.16.20:8502";

/// The tokens of all three.
const TOKENS: [(&str, &str); 3] = [
    ("dc1", "token-of-dc1-0123456789"),
    ("dc2", "token-of-dc2-0123456789"),
    ("dc3", "token-of-dc3-0123456789"),
];

/// The gateway of `web` in dc1.
const OFFERED: &str =
    "[[frontend]]\nservice = \"web\"\nvip = \"192.168.16.20\"\nport = 21500\nexport = true\n";

/// `web` in dc2, which the others serve if no instance does there.
const WANTED: &str = "[[frontend]]\nservice = \"web\"\nvip = \"10.96.0.10\"\nport = 80\n\
                      failover = [\"dc1\", \"dc3\"]\nvia = \"gateway\"\n";

/// A datacenter's agent, and what it keeps.
struct Member {
    /// `None` while it is away.
    agent: Option<Agent>,
    pins: PinDir,
    _folder: TempDir,
    api: SocketPath,
    name: &'static str,
    further: Vec<String>,
}

impl Member {
    fn new(
        namespace: &Namespace,
        name: &'static str,
        address: IpAddr,
        frontends: &str,
        further: &[&str],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |file: &str| folder.path().join(file).to_str().unwrap().to_owned();
        fs::write(file("frontends.toml"), frontends).unwrap();
        let is_known = |(datacenter, _): &&(&str, &str)| name == "dc1" || *datacenter == name;
        let tokens = TOKENS.iter().filter(is_known);
        let tokens: Vec<String> = tokens
            .map(|(datacenter, token)| format!("{datacenter} {token}\n"))
            .collect();
        fs::write(file("tokens"), tokens.concat()).unwrap();
        let api = SocketPath::new();
        let flags = [
            ["--local-api", &format!("unix:{}", api.path().display())],
            ["--local-state", &file("local.json")],
            ["--local-frontends", &file("frontends.toml")],
            ["--local-address", &address.to_string()],
            ["--federation-datacenter", name],
            ["--federation-primary", "dc1"],
            ["--federation-token-file", &file("tokens")],
            ["--federation-state", &file("federation.json")],
            ["--max-frontends", "1024"],
            ["--max-slots", "8192"],
            ["--max-backends", "4096"],
            ["--max-conntrack", "65536"],
        ];
        let flags = flags.as_flattened().iter().chain(further);
        let mut member = Self {
            agent: None,
            pins: PinDir::new(),
            api,
            name,
            further: flags.map(|&flag| flag.to_owned()).collect(),
            _folder: folder,
        };
        member.start(namespace);
        member
    }

    fn start(&mut self, namespace: &Namespace) {
        let agent = Agent::alone(&binary(), namespace, &self.pins, &self.further);
        self.agent = Some(agent.unwrap());
    }

    fn kill(&mut self) {
        self.agent.take().unwrap().kill().unwrap();
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> HttpAnswer {
        let stream = UnixStream::connect(self.api.path()).unwrap();
        stream.set_read_timeout(Some(patience(SOON))).unwrap();
        http_ask(stream, method, path, &["Host: local"], body).unwrap()
    }

    fn put(&self, path: &str, body: &str) {
        let answer = self.ask("PUT", &format!("/v1/agent/{path}"), body);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }

    /// Reads the federation at this path, and returns it with its index.
    fn read(&self, path: &str) -> (Value, u64) {
        let answer = self.ask("GET", &format!("/v1/internal/{path}"), "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let index = answer.header("x-consul-index").unwrap().parse().unwrap();
        (serde_json::from_str(&answer.body).unwrap(), index)
    }

    /// The gateways that it knows, each as its datacenter and how it is.
    fn gateways(&self) -> BTreeSet<(String, String)> {
        let (all, _) = self.read("federation-states/mesh-gateways");
        let all = all.as_object().unwrap().iter();
        let gateways = all.flat_map(|(datacenter, list)| {
            list.as_array().unwrap().iter().map(move |gateway| {
                let status = gateway["Checks"][0]["Status"].as_str();
                (datacenter.clone(), status.unwrap().to_owned())
            })
        });
        gateways.collect()
    }

    #[track_caller]
    fn await_gateways(&self, expected: &[(&str, &str)]) {
        let expected = expected.iter();
        let expected: BTreeSet<_> = expected
            .map(|(datacenter, status)| ((*datacenter).to_owned(), (*status).to_owned()))
            .collect();
        let mut last = BTreeSet::new();
        let known = wait_until("the gateways are known", SOON, || {
            last = self.gateways();
            (last == expected).then_some(())
        });
        if let Err(error) = known {
            let log = self.agent.as_ref().map(Agent::log).unwrap_or_default();
            panic!(
                "{}: {error:#}: {last:?}, not {expected:?}\n{log}",
                self.name
            );
        }
    }

    /// Returns the federation as `shunt status` shows it.
    fn shown(&self) -> Value {
        let socket = self.agent.as_ref().unwrap().socket();
        let status = shunt_at(socket, &["status", "-o", "json"], "").json();
        status["local_api"]["federation"].clone()
    }

    #[track_caller]
    fn await_shown(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let found = wait_until(what, SOON, || {
            last = self.shown();
            is_so(&last).then(|| last.clone())
        });
        found.unwrap_or_else(|error| panic!("{}: {error:#}: {last:#}", self.name))
    }
}

/// All three.
struct World {
    dc1: Member,
    dc2: Member,
    dc3: Member,
    sandbox: Sandbox,
}

impl World {
    fn new() -> Option<Self> {
        let sandbox = Sandbox::serving(SERVED)?;
        let dc1 = Member::new(
            sandbox.node2(),
            "dc1",
            addresses::NODE2,
            OFFERED,
            &[
                "--federation-listen",
                PRIMARY,
                "--interface",
                "eth0",
                "--pod-cidr",
                "10.1.2.0/24",
            ],
        );
        let secondary = ["--federation-gateway", PRIMARY];
        let mut near = secondary.to_vec();
        for interface in ["eth0", "eth1", "pod-a", "pod-b", "pod-c"] {
            near.extend(["--interface", interface]);
        }
        near.extend(["--pod-cidr", addresses::POD_CIDR]);
        let dc2 = Member::new(sandbox.node(), "dc2", addresses::NODE, WANTED, &near);
        let far = [&secondary[..], &["--interface", "eth0"]].concat();
        let dc3 = Member::new(sandbox.outside(), "dc3", addresses::OUTSIDE, "", &far);
        Some(Self {
            dc1,
            dc2,
            dc3,
            sandbox,
        })
    }

    fn register(&self, member: &Member, pod: &str) {
        let address = self.sandbox.pod(pod).address();
        let body = json!({ "Name": "web", "ID": pod, "Address": address, "Port": SERVED });
        member.put("service/register", &body.to_string());
    }

    /// Waits until the client gets answers from this pod alone, or none.
    #[track_caller]
    fn is_served_by(&self, pod: Option<&str>) {
        let target = Target::tcp(VIP.parse().unwrap()).within(Duration::from_secs(1));
        let client = self.sandbox.pod("pod-c").namespace();
        let expected: BTreeSet<String> = pod.iter().map(|&pod| pod.to_owned()).collect();
        let mut last = String::new();
        let served = wait_until(&format!("answers of {pod:?} alone"), SOON, || {
            let tally = client.enter(|| target.ask_times(8, REQUEST));
            let names = tally.shares.values().map(|share| share.name.clone());
            let is_right = names.collect::<BTreeSet<_>>() == expected
                && (pod.is_none() || tally.failures.is_empty());
            last = format!("{tally:?}");
            is_right.then_some(())
        });
        served.unwrap_or_else(|error| panic!("{error:#}: {last}\n{:#}", self.dc2.shown()));
    }
}

#[test]
fn gateways_are_known_in_all_datacenters_and_the_primary_may_be_away() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.register(&world.dc2, "pod-a");
    world.register(&world.dc1, "pod-d");
    let gateway = json!({
        "Kind": "mesh-gateway", "Name": "mesh-gateway", "ID": "m", "Port": 8443,
        "Check": { "TTL": "10m", "Status": "passing" },
    });
    world.dc3.put("service/register", &gateway.to_string());
    let all = [("dc1", "passing"), ("dc3", "passing")];
    for member in [&world.dc1, &world.dc2, &world.dc3] {
        member.await_gateways(&all);
    }
    let shown = world.dc2.shown();
    let origins = shown["gateways"].as_array().unwrap().iter();
    let origins: Vec<_> = origins
        .map(|gateway| (gateway["datacenter"].as_str(), gateway["origin"].as_str()))
        .collect();
    let copied = Some("copied from dc1");
    assert_eq!(
        origins,
        [(Some("dc1"), copied), (Some("dc3"), copied)],
        "{shown:#}"
    );

    // The own instances, then those behind the gateway, and none if none is behind it.
    world.is_served_by(Some("pod-a"));
    world.dc2.put("service/deregister/pod-a", "");
    world.is_served_by(Some("pod-d"));
    let failed_over = json!([{ "service": "local/web", "datacenter": "dc1" }]);
    world
        .dc2
        .await_shown("dc1 serves", |it| it["failed_over"] == failed_over);
    world.dc1.put("service/maintenance/pod-d?enable=true", "");
    world
        .dc2
        .await_gateways(&[("dc1", "critical"), ("dc3", "passing")]);
    world.is_served_by(None);
    world.dc1.put("service/maintenance/pod-d?enable=false", "");
    world.is_served_by(Some("pod-d"));

    // The primary is away: all others keep what is known, over an end of one's own, too.
    world.dc1.kill();
    let away = world
        .dc2
        .await_shown("the primary is away", |it| it["up_to_date"] == false);
    assert!(away["trouble"].is_string(), "{away:#}");
    world.dc2.kill();
    world.dc2.start(world.sandbox.node());
    world.dc2.await_gateways(&all);
    world.is_served_by(Some("pod-d"));
    world.dc3.put("check/fail/service:m", "");
    world.register(&world.dc2, "pod-a");
    world.is_served_by(Some("pod-a"));

    // Changes meanwhile are sent when it is back.
    world.dc1.start(world.sandbox.node2());
    let changed = [("dc1", "passing"), ("dc3", "critical")];
    for member in [&world.dc1, &world.dc2, &world.dc3] {
        member.await_gateways(&changed);
    }
    world
        .dc2
        .await_shown("all is well", |it| it["up_to_date"] == true);
    world.dc3.put("service/deregister/m", "");
    world.dc2.await_gateways(&[("dc1", "passing")]);
}

#[test]
fn states_are_read_in_consuls_form_and_written_with_the_own_token_alone() {
    let Some(world) = World::new() else {
        return;
    };
    world.register(&world.dc1, "pod-d");
    let dc2 = &world.dc2;
    dc2.await_gateways(&[("dc1", "passing")]);
    let (states, index) = dc2.read("federation-states");
    assert_eq!(states[0]["Datacenter"], "dc1", "{states:#}");
    let (alone, _) = dc2.read("federation-state/dc1");
    assert_eq!(alone["State"], states[0]);
    let gateway = &states[0]["MeshGateways"][0];
    assert_eq!(gateway["Service"]["TaggedAddresses"]["wan"]["Port"], 21_500);
    assert_eq!(gateway["Service"]["Meta"]["shunt-service"], "web");
    for (method, path, status) in [
        ("GET", "federation-state/nodc", 404),
        ("GET", "federation-state/", 400),
        ("PUT", "federation-state/dc1", 405),
        ("GET", "federation-states?index=abc", 400),
        ("GET", "federation-states?index=1&wait=2", 400),
    ] {
        let answer = dc2.ask(method, &format!("/v1/internal/{path}"), "");
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
    }

    // A read that waits ends after its time, or with a change.
    let began = Instant::now();
    let (_, same) = dc2.read(&format!("federation-states?index={index}&wait=600ms"));
    assert!(began.elapsed() >= Duration::from_millis(600));
    assert_eq!(same, index);
    std::thread::scope(|scope| {
        let path = format!("federation-states/mesh-gateways?index={index}&wait=5m");
        let waiting = scope.spawn(move || dc2.read(&path));
        world.dc1.put("service/deregister/pod-d", "");
        let (gateways, newer) = waiting.join().unwrap();
        assert!(newer > index, "{newer}");
        assert_eq!(gateways["dc1"][0]["Checks"][0]["Status"], "critical");
    });

    // The primary asks for a token, and takes a datacenter's list from itself.
    let primary: SocketAddr = PRIMARY.parse().unwrap();
    let ask = |method: &'static str, path: &'static str, token: &str, body: &'static str| {
        let token = format!("X-Consul-Token: {token}");
        let node = world.sandbox.node();
        let answer = node.enter(|| http_send(primary, method, path, &[&token], body));
        answer.unwrap()
    };
    let [_, (_, second), (_, third)] = TOKENS;
    for (method, path, token, body, status) in [
        ("GET", "/v1/federation-states", "", "", 403),
        (
            "GET",
            "/v1/federation-states",
            "token-of-dc2-012345678",
            "",
            403,
        ),
        ("GET", "/v1/federation-states", second, "", 200),
        ("PUT", "/v1/federation-state/dc2", third, "[]", 403),
        ("PUT", "/v1/federation-state/dc2", second, "{}", 400),
        ("GET", "/v1/federation-state/dc2", second, "", 405),
        ("GET", "/v1/agent/services", second, "", 404),
    ] {
        let answer = ask(method, path, token, body);
        assert_eq!(
            answer.status, status,
            "{method} {path} {token}: {}",
            answer.body
        );
    }
    let (states, _) = dc2.read("federation-states");
    assert_eq!(
        states.as_array().unwrap().len(),
        1,
        "nobody wrote for dc2: {states:#}"
    );

    // Without a token there is no federation.
    let refused = shunt(
        &[
            "agent",
            "--local-api",
            "127.0.0.1:1",
            "--federation-datacenter",
            "dc2",
            "--federation-primary",
            "dc1",
        ],
        "",
    );
    assert_ne!(refused.status, 0);
    assert!(
        refused.errors.contains("--federation-token-file"),
        "{refused:?}"
    );
}
