//! Consul's own federation through mesh gateways, with Shunt's NAT in the gateways' place: two
//! datacenters of one server each, which have no other way to each other.
//!
//! ```text
//!  pod-a: server of dc1 -- node: gateway of dc1 ---- node2: gateway of dc2 -- pod-d: server of dc2
//! ```
//!
//! A gateway has two ports: what comes to `LAN` from its own server goes to the other gateway's `WAN`, and
//! what comes to that from the other side goes to its own server.

use std::{fs, net::IpAddr, path::Path, time::Duration};

use serde_json::{Value, json};
use shunt_tests::{
    Agent, Consul, ConsulSettings, Namespace, PinDir, Sandbox, addresses, agent_binary, wait_until,
};
use tempfile::TempDir;

use crate::{
    joined::ports,
    tls::certificates,
    world::{SOON, ground},
};

/// A gateway's ports.
const LAN: u16 = 8444;
const WAN: u16 = 8443;

/// The longest that servers may take to find each other: they try again in half a minute.
const JOINED: Duration = Duration::from_mins(2);

/// The port of the servers themselves.
const SERVER: u16 = 8600;

/// One of the two datacenters.
struct Side<'a> {
    name: &'static str,
    node: &'static str,
    /// Namespace of its server, and the server's address.
    inside: &'a Namespace,
    server: IpAddr,
    /// Namespace of its gateway, and the gateway's address.
    edge: &'a Namespace,
    gateway: IpAddr,
    interfaces: &'a [&'a str],
}

/// dc1 and dc2.
fn sides(sandbox: &Sandbox) -> [Side<'_>; 2] {
    [
        Side {
            name: "dc1",
            node: "n1",
            inside: sandbox.pod("pod-a").namespace(),
            server: addresses::POD_A,
            edge: sandbox.node(),
            gateway: addresses::NODE,
            interfaces: &["pod-a", "eth1"],
        },
        Side {
            name: "dc2",
            node: "n2",
            inside: sandbox.pod("pod-d").namespace(),
            server: addresses::POD_D,
            edge: sandbox.node2(),
            gateway: addresses::NODE2,
            interfaces: &["pod-d", "eth0"],
        },
    ]
}

impl Side<'_> {
    /// Starts its server, which knows the primary's gateway and no other server.
    fn start(&self, binary: &Path, folder: &Path) -> Consul {
        let file = |name: &str| folder.join(name).display().to_string();
        let certificate = format!("{}-server-consul-0", self.name);
        let mut further = json!({
            "datacenter": self.name,
            "primary_datacenter": "dc1",
            // The gateway's host asks it for what it leads to.
            "client_addr": "0.0.0.0",
            "ca_file": file("consul-agent-ca.pem"),
            "cert_file": file(&format!("{certificate}.pem")),
            "key_file": file(&format!("{certificate}-key.pem")),
            "verify_incoming": true,
            "verify_outgoing": true,
            "verify_server_hostname": true,
            "connect": { "enabled": true, "enable_mesh_gateway_wan_federation": true },
            "retry_interval_wan": "1s",
            "ports": ports(),
        });
        if self.name != "dc1" {
            further["primary_gateways"] = json!([format!("{}:{WAN}", addresses::NODE)]);
            further["primary_gateways_interval"] = json!("1s");
        }
        let settings = ConsulSettings {
            node: self.node.to_owned(),
            further,
            ..ConsulSettings::new(self.server)
        };
        Consul::launch(binary, self.inside, settings).unwrap()
    }

    /// Registers its gateway, as the one of Envoy would be, and where that of the other side is.
    fn register(&self, consul: &Consul, other: &Self) {
        let at = |port: u16| json!({ "Address": self.gateway.to_string(), "Port": port });
        let gateway = json!({
            "Kind": "mesh-gateway", "Name": "mesh-gateway", "ID": "gateway",
            "Address": self.gateway.to_string(), "Port": LAN,
            "Meta": { "consul-wan-federation": "1" },
            "TaggedAddresses": { "lan": at(LAN), "wan": at(WAN) },
        });
        let register = "/v1/agent/service/register";
        consul.put(self.inside, register, &gateway).unwrap();
        let beyond = json!({
            "Node": "beyond", "Address": other.gateway.to_string(),
            "Service": { "Service": "beyond", "ID": "beyond", "Port": WAN },
        });
        let register = "/v1/catalog/register";
        consul.put(self.inside, register, &beyond).unwrap();
    }

    /// Starts the agent at its gateway. Returns with it what it keeps.
    fn translate(&self) -> (Agent, PinDir, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let frontend = |service: &str, port: u16| {
            let vip = self.gateway;
            format!("[[frontend]]\nservice = \"{service}\"\nvip = \"{vip}\"\nport = {port}\n\n")
        };
        let file = folder.path().join("frontends.toml");
        fs::write(&file, frontend("consul", WAN) + &frontend("beyond", LAN)).unwrap();
        let snat = self.gateway.to_string();
        let mut flags = vec!["--consul-config", file.to_str().unwrap()];
        flags.extend(["--snat-ip", &snat]);
        for interface in self.interfaces {
            flags.extend(["--interface", interface]);
        }
        let sizes = [
            ["--max-frontends", "1024"],
            ["--max-slots", "8192"],
            ["--max-backends", "4096"],
            ["--max-conntrack", "65536"],
        ];
        flags.extend(sizes.as_flattened());
        let server = format!("{}:8500", self.server);
        let environment = [("CONSUL_HTTP_ADDR", &*server)];
        let pins = PinDir::new();
        let agent = Agent::follow_consul(&agent_binary(), self.edge, &pins, &environment, &flags);
        (agent.unwrap(), pins, folder)
    }

    /// The servers of all datacenters that its own one knows to be alive.
    fn alive(&self, consul: &Consul) -> Vec<String> {
        let Ok(answer) = consul.ask(self.inside, "GET", "/v1/agent/members?wan=1", "") else {
            return Vec::new();
        };
        let members: Vec<Value> = serde_json::from_str(&answer.body).unwrap_or_default();
        let alive = members.iter().filter(|member| member["Status"] == 1);
        let mut names: Vec<_> = alive
            .filter_map(|member| Some(member["Name"].as_str()?.to_owned()))
            .collect();
        names.sort();
        names
    }

    /// Returns whether its server gets answers from the other's.
    fn reaches(&self, consul: &Consul, other: &Self) -> bool {
        let path = format!("/v1/catalog/nodes?dc={}", other.name);
        let answer = consul.ask(self.inside, "GET", &path, "");
        answer.is_ok_and(|answer| answer.status == 200 && answer.body.contains(other.node))
    }

    /// The ports of others that its server has connections to, each with the address.
    fn peers(&self) -> Vec<(String, u16)> {
        let table = fs::read_to_string;
        let table = self.inside.enter(|| table("/proc/thread-self/net/tcp"));
        let peer = |line: &str| {
            let (address, port) = line.split_whitespace().nth(2)?.split_once(':')?;
            let address = u32::from_str_radix(address, 16).ok()?;
            let address = IpAddr::from(address.to_ne_bytes()).to_string();
            Some((address, u16::from_str_radix(port, 16).ok()?))
        };
        table.unwrap().lines().filter_map(peer).collect()
    }
}

/// The certificates of both servers, each with the name that the other one asks for.
fn all_certificates(binary: &Path) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let server = |name, node| ["-server", "-dc", name, "-node", node];
    certificates(
        binary,
        folder.path(),
        &[&server("dc1", "n1"), &server("dc2", "n2")],
    );
    folder
}

fn set_up(sandbox: &Sandbox, binary: &Path, folder: &Path) -> [Consul; 2] {
    let [first, second] = sides(sandbox);
    // No way but through the gateways: what would go straight from one server to the other has no way back.
    let nowhere = "route add unreachable 10.1.1.0/24\n";
    second.inside.configure(nowhere).unwrap();
    let consuls = [&first, &second].map(|side| side.start(binary, folder));
    for (side, consul, other) in [
        (&first, &consuls[0], &second),
        (&second, &consuls[1], &first),
    ] {
        consul.wait(side.inside).unwrap();
        side.register(consul, other);
    }
    consuls
}

#[test]
fn consuls_own_federation_is_carried_between_two_datacenters() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let folder = all_certificates(&binary);
    let consuls = set_up(&sandbox, &binary, folder.path());
    let [first, second] = sides(&sandbox);
    let both = [
        (&first, &consuls[0], &second),
        (&second, &consuls[1], &first),
    ];
    for (side, consul, other) in both {
        assert!(
            !side.reaches(consul, other),
            "{} has another way",
            side.name
        );
        assert_eq!(side.alive(consul).len(), 1);
    }

    let gateways = [first.translate(), second.translate()];
    for (side, consul, other) in both {
        let found = wait_until("the other datacenter's server is alive", JOINED, || {
            let all = ["n1.dc1", "n2.dc2"];
            (side.alive(consul) == all && side.reaches(consul, other)).then_some(())
        });
        let logs = || gateways.iter().map(|(agent, ..)| agent.log());
        found.unwrap_or_else(|error| {
            let logs: String = logs().collect();
            panic!("{}: {error}\n{}\n{logs}", side.name, consul.log())
        });
    }
    // Each knows the gateways of both, which is what Consul replicates over them.
    for (side, consul, _) in both {
        let known = wait_until("the gateways of both are known", JOINED, || {
            let path = "/v1/internal/federation-states/mesh-gateways";
            let answer = consul.ask(side.inside, "GET", path, "").ok()?;
            let gateways: Value = serde_json::from_str(&answer.body).ok()?;
            let at = |name: &str| {
                gateways[name][0]["Service"]["TaggedAddresses"]["wan"]["Address"].clone()
            };
            let [one, two] = [&first, &second].map(|side| json!(side.gateway.to_string()));
            (at("dc1") == one && at("dc2") == two).then_some(())
        });
        known.unwrap_or_else(|error| panic!("{}: {error}\n{}", side.name, consul.log()));
    }

    // A query that waits in the other datacenter is woken by what happens there.
    let register = |id: &str| {
        let body = json!({ "Name": "web", "ID": id, "Address": "10.9.9.9", "Port": 80 });
        let path = "/v1/agent/service/register";
        consuls[1].put(second.inside, path, &body).unwrap();
    };
    let ask = |path: &str| {
        let answer = consuls[0].ask(first.inside, "GET", path, "").unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer
    };
    register("one");
    let known = wait_until("dc2's instance is seen", SOON, || {
        let answer = ask("/v1/health/service/web?dc=dc2");
        answer.body.contains("\"one\"").then_some(answer)
    });
    let known = known.unwrap();
    let index = known.header("x-consul-index").unwrap().to_owned();
    std::thread::scope(|scope| {
        let path = format!("/v1/health/service/web?dc=dc2&index={index}&wait=20s");
        let waiting = scope.spawn(move || ask(&path));
        register("two");
        assert!(waiting.join().unwrap().body.contains("\"two\""));
    });

    // The agents end, and what is in the kernel goes on.
    let mut kept = Vec::new();
    for (agent, pins, folder) in gateways {
        assert!(!agent.kill().unwrap().success());
        kept.push((pins, folder));
        for (side, consul, other) in both {
            assert!(side.reaches(consul, other), "{}", side.name);
        }
    }
    for (side, _, other) in both {
        let peers = side.peers();
        let straight = (other.server.to_string(), SERVER);
        assert!(!peers.contains(&straight), "{}: {peers:?}", side.name);
        // Its own gateway, or at first the primary's.
        let gateways = [(side.gateway, LAN), (other.gateway, WAN)];
        let gateways = gateways.map(|(address, port)| (address.to_string(), port));
        let has_one = peers.iter().any(|peer| gateways.contains(peer));
        assert!(has_one, "{}: {peers:?}", side.name);
    }
}
