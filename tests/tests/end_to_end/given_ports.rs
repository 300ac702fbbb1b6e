//! Another range of SNAT ports at a restart.

use std::ops::RangeInclusive;

use shunt_tests::{Answer, Connection, Flow, Transport};

use crate::{
    attack::{ask, both, snapshot},
    dual_stack::{service, world_with_flags},
    service::Service,
    world::{REQUEST, World},
};

/// Ranges that have no port in common, the first once more.
const RANGES: [RangeInclusive<u16>; 3] = [20_000..=20_999, 40_000..=40_999, 20_000..=20_999];

fn flag(range: &RangeInclusive<u16>) -> String {
    format!("--snat-ports={}-{}", range.start(), range.end())
}

/// Connections and flows from outside, which go on under this node's address.
struct Open {
    connections: Vec<(Connection, Answer)>,
    flows: Vec<(Flow, Answer)>,
}

impl Open {
    fn new(world: &World, [tcp, udp]: &[Service; 2]) -> Self {
        world.sandbox.outside().enter(|| Self {
            connections: both(tcp.node_port())
                .into_iter()
                .map(|target| {
                    let mut connection = target.connect().unwrap();
                    let answer = connection.echo(REQUEST).unwrap();
                    (connection, answer)
                })
                .collect(),
            flows: both(udp.node_port())
                .into_iter()
                .map(|target| {
                    let flow = target.flow().unwrap();
                    let answer = flow.ask(REQUEST).unwrap();
                    (flow, answer)
                })
                .collect(),
        })
    }

    #[track_caller]
    fn check(&mut self, ports: &RangeInclusive<u16>) {
        for (connection, first) in &mut self.connections {
            let answer = connection.echo(REQUEST).unwrap();
            assert_eq!(answer.peer, first.peer);
            assert!(ports.contains(&answer.peer.port()), "{answer:?}");
        }
        for (flow, first) in &self.flows {
            let answer = flow.ask(REQUEST).unwrap();
            assert_eq!(answer.peer, first.peer);
            assert!(ports.contains(&answer.peer.port()), "{answer:?}");
        }
    }
}

#[test]
fn snat_connections_go_on_with_another_range_of_ports() {
    let Some(mut world) = world_with_flags(&[&flag(&RANGES[0])]) else {
        return;
    };
    let services =
        [Transport::Tcp, Transport::Udp].map(|transport| service(&world, transport, &["pod-d"]));
    let [tcp, udp] = services.each_ref().map(Service::json);
    let snapshot = snapshot(&[tcp, renamed(udp)]);
    world.apply(&snapshot);
    let mut open = vec![(Open::new(&world, &services), RANGES[0].clone())];
    for range in &RANGES[1..] {
        world = world.killed().start(&[&flag(range)]);
        for (open, ports) in &mut open {
            open.check(ports);
        }
        world.apply(&snapshot);
        for (open, ports) in &mut open {
            open.check(ports);
        }
        world.sandbox.outside().enter(|| {
            for target in services
                .iter()
                .flat_map(|service| both(service.node_port()))
            {
                let answer = ask(target);
                assert!(range.contains(&answer.peer.port()), "{answer:?}");
            }
        });
        open.push((Open::new(&world, &services), range.clone()));
    }
}

/// The service under another name, so that there are two.
fn renamed(mut service: serde_json::Value) -> serde_json::Value {
    service["id"]["name"] = "dns".into();
    service
}
