//! Two nodes that got the same events in another order, and a client whose packets come now by the one
//! and now by the other.

use std::{collections::BTreeSet, net::SocketAddr};

use serde_json::{Value, json};
use shunt_tests::{Ack, Agent, Answer, Namespace, PinDir, Sandbox, Target, Transport, addresses};

use crate::{
    service::Service,
    world::{self, REQUEST, SERVED, all_answered_outside, binary},
};

/// The other end of a link from outside to the second node, and this end.
const NODE2_OUTSIDE: &str = "198.51.101.1";
const OUTSIDE_TOO: &str = "198.51.101.50";

/// The ports that the client asks from.
const PORTS: std::ops::Range<u16> = 20_000..20_060;

/// Both nodes with an agent each.
struct World {
    agents: [(Agent, PinDir); 2],
    sandbox: Sandbox,
}

impl World {
    fn new() -> Option<Self> {
        let sandbox = Sandbox::serving(SERVED)?;
        let (outside, node2) = (sandbox.outside(), sandbox.node2());
        outside
            .configure(&format!(
                "link add eth1 type veth peer name eth1 netns {}\n\
                 address add {OUTSIDE_TOO}/24 dev eth1\n\
                 link set eth1 up\n",
                node2.name(),
            ))
            .unwrap();
        node2
            .configure(&format!(
                "address add {NODE2_OUTSIDE}/24 dev eth1\n\
                 link set eth1 up\n\
                 route add {} via {OUTSIDE_TOO}\n",
                addresses::OUTSIDE,
            ))
            .unwrap();
        let agents = [
            start(
                sandbox.node(),
                addresses::POD_CIDR,
                &["eth0", "eth1", "pod-a", "pod-b"],
            ),
            start(node2, "10.1.2.0/24", &["eth0", "eth1", "pod-d"]),
        ];
        Some(Self { agents, sandbox })
    }

    fn apply(&mut self, node: usize, event: &str) {
        if let Ack::Refused(reason) = self.agents[node].0.apply(event).unwrap() {
            panic!("the agent refuses {event}\nbecause {reason}");
        }
    }

    /// Sends the client's packets to the service by this node.
    fn go_by(&self, node: usize) {
        let by = match node {
            0 => "198.51.100.1 dev eth0",
            _ => "198.51.101.1 dev eth1",
        };
        let outside = self.sandbox.outside();
        let source = addresses::OUTSIDE;
        let route = format!("route replace 203.0.113.7 via {by} src {source}\n");
        outside.configure(&route).unwrap();
    }

    /// Returns the answers to the client at each of its ports.
    fn answers(&self, service: &Service, transport: Transport) -> Vec<Answer> {
        self.sandbox.outside().enter(|| {
            PORTS
                .map(|port| ask(service.external_ip().from_port(port), transport))
                .collect()
        })
    }
}

fn start(node: &Namespace, pods: &str, interfaces: &[&str]) -> (Agent, PinDir) {
    let pins = PinDir::new();
    let flags = [
        ["--pod-cidr", pods],
        ["--max-frontends", "64"],
        ["--max-slots", "16384"],
        ["--max-backends", "256"],
        ["--max-conntrack", "65536"],
        ["--external-selection", "maglev"],
    ];
    let mut agent = Agent::start(&binary(), node, &pins, flags.as_flattened()).unwrap();
    let resync = json!({
        "event": "Resync",
        "node_ips": [addresses::NODE, addresses::NODE2],
        "services": [],
        "frontend_ifs": interfaces,
        "backend_ifs": [],
    });
    let ack = agent.apply(&resync.to_string()).unwrap();
    assert!(matches!(ack, Ack::Applied { .. }), "{ack:?}");
    (agent, pins)
}

/// Asks once. A TCP connection ends with a reset, so that the next one may have its port.
fn ask(target: Target, transport: Transport) -> Answer {
    match transport {
        Transport::Udp => target.ask(REQUEST).unwrap(),
        Transport::Tcp => {
            let mut connection = target.connect().unwrap();
            let answer = connection.echo(REQUEST).unwrap();
            connection.reset().unwrap();
            answer
        }
    }
}

/// The service as the second node knows it: its backends in another order, and others local.
fn as_seen_there(service: &Service) -> Value {
    let mut seen = service.json();
    let backends = seen["backends"]["main"].as_array_mut().unwrap();
    backends.reverse();
    for backend in backends {
        let local = backend["local"].as_bool().unwrap();
        backend["local"] = (!local).into();
    }
    seen
}

fn event(name: &str, service: &Value) -> String {
    json!({ "event": name, "service": service }).to_string()
}

#[test]
fn nodes_that_were_told_the_same_in_another_order_choose_alike() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let Some(mut world) = World::new() else {
            return;
        };
        let at = |pod: &str| -> SocketAddr { world.sandbox.pod(pod).at(SERVED) };
        let (a, b, d) = (at("pod-a"), at("pod-b"), at("pod-d"));
        let two = Service::new(transport).backend(b).weighted(d, 3);
        let all = Service::new(transport).backend(a).backend(b).weighted(d, 2);
        world.apply(0, &all.event("AddService"));
        world.apply(1, &event("AddService", &as_seen_there(&two)));
        world.apply(1, &event("UpdateService", &as_seen_there(&all)));

        world.go_by(0);
        let by_first = world.answers(&all, transport);
        world.go_by(1);
        let by_second = world.answers(&all, transport);
        for (first, second) in by_first.iter().zip(&by_second) {
            assert_eq!(first.client, second.client);
            assert_eq!(
                first.backend, second.backend,
                "{transport} {first:?}, {second:?}"
            );
        }
        let backends: BTreeSet<_> = by_first.iter().map(|answer| answer.backend).collect();
        assert_eq!(backends, BTreeSet::from([a, b, d]));
        // A backend sees the node that the packets came by, unless it is that node's own.
        for (answers, node, own) in [
            (&by_first, addresses::NODE, vec![a, b]),
            (&by_second, addresses::NODE2, vec![d]),
        ] {
            for answer in answers {
                let seen = if own.contains(&answer.backend) {
                    addresses::OUTSIDE
                } else {
                    node
                };
                assert_eq!(answer.peer.ip(), seen, "{answer:?}");
            }
        }
    }
}

#[test]
fn the_status_names_service_ports_without_room_for_their_table_and_these_are_served_by_weight() {
    // A table of 4,093 entries takes 257 slots of 1,024; the quarter that is not for tables leaves room for two.
    let Some(mut world) = world::World::with_flags(&["--external-selection", "maglev"]) else {
        return;
    };
    let maglev = |world: &world::World| {
        let status = world.shunt(&["status", "-o", "json"]).json();
        status["maglev"].clone()
    };
    let all = ["pod-a", "pod-b", "pod-d"].map(|pod| world.backend(pod));
    let of = |name: &str, port: u16, backends: &[SocketAddr]| {
        let service = backends
            .iter()
            .fold(Service::new(Transport::Tcp), |service, backend| {
                service.backend(*backend)
            });
        let mut json = service.json();
        json["id"]["name"] = name.into();
        for (field, port) in [("port", port), ("node_port", 30_000 + port)] {
            json["ports"]["main"][field] = port.into();
        }
        json["cluster_ips"] = json!([]);
        json
    };
    let services = [
        of("web", 80, &all),
        of("second", 81, &all[..2]),
        of("third", 82, &all[1..]),
        // It shares the first one's.
        of("fourth", 83, &all),
    ];
    world.apply(&world::resync_with(&services));
    let expected = json!({ "tables": 2, "slots": 2 * 257, "without_room": ["default/third:main"] });
    assert_eq!(maglev(&world), expected);
    let shown = world.shunt(&["status"]).clean();
    assert!(shown.contains("default/third:main"), "{shown}");
    let outside = world.sandbox.outside();
    let third = Target::tcp(SocketAddr::new(addresses::NODE, 30_082));
    let tally = all_answered_outside(outside, third, 40);
    assert!(
        all[1..].iter().all(|backend| tally.of(*backend) > 0),
        "{tally:?}"
    );
    // The next Resync tries again.
    let second = json!({ "namespace": "default", "name": "second" });
    world.apply(&json!({ "event": "DeleteService", "id": second }).to_string());
    let [web, _, third_one, fourth] = services;
    world.apply(&world::resync_with(&[web, third_one, fourth]));
    let expected = json!({ "tables": 2, "slots": 2 * 257, "without_room": [] });
    assert_eq!(maglev(&world), expected);
    all_answered_outside(world.sandbox.outside(), third, 40);
}
