//! This node's pods, known by the ranges of its Node.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use shunt_tests::{ApiServer, PinDir, Sandbox, addresses, has_root, http_get, wait_until};

use crate::{
    objects::{and, node, ready, service, slice},
    world::{Pods, REQUEST, SOON, World, follow, tcp},
};

const IP: &str = "10.96.0.10";

/// This node, with these ranges of its pods.
fn with_ranges(ranges: &[&str]) -> Value {
    let spec = json!({ "podCIDRs": ranges });
    and(node("node-1", addresses::NODE), "", "spec", spec)
}

const RANGES: [&str; 2] = [addresses::POD_CIDR, addresses::POD_CIDR_V6];

/// A world that knows its pods by the Node alone, with a service that another node serves.
fn by_node(flags: &[&str], ranges: &[&str]) -> Option<World> {
    World::start(flags, Pods::ByNode, |_, server| {
        server.put(with_ranges(ranges));
        server.put(service("web", IP));
        server.put(slice("web", "4", &[ready(addresses::POD_D)]));
    })
}

/// Returns the address that the server sees for the client pod.
fn seen(world: &World) -> IpAddr {
    world.await_pods(world.pod(), tcp(IP, 80), &["pod-d"]);
    let answer = world.pod().enter(|| tcp(IP, 80).ask(REQUEST));
    answer.unwrap().peer.ip()
}

#[test]
fn a_pod_keeps_its_address_by_the_ranges_of_its_node() {
    for (flags, ranges, expected) in [
        (&[][..], &RANGES[..], addresses::POD_C),
        (
            &["--detect-local-mode", "NodeCIDR"],
            &RANGES,
            addresses::POD_C,
        ),
        // It is not known to be a pod: the reply is made to come back.
        (&[], &[], addresses::NODE),
        (&["--cluster-cidr", "10.2.0.0/16"], &RANGES, addresses::NODE),
    ] {
        let Some(world) = by_node(flags, ranges) else {
            return;
        };
        assert_eq!(seen(&world), expected, "{flags:?} {ranges:?}");
    }
}

#[test]
fn the_agent_ends_when_its_node_has_other_ranges() {
    for ranges in [&RANGES[..], &[]] {
        let Some(mut world) = by_node(&[], ranges) else {
            return;
        };
        assert_eq!(seen(&world) == addresses::POD_C, !ranges.is_empty());
        world.server.put(with_ranges(ranges));
        thread::sleep(Duration::from_millis(300));
        assert_eq!(world.agent.ended().unwrap(), None, "it has the same");
        world.server.put(with_ranges(&["10.7.0.0/24"]));
        let status = wait_until("the agent ends", SOON, || world.agent.ended().unwrap());
        let log = world.agent.log();
        assert_eq!(status.unwrap().code(), Some(1), "{log}");
        assert!(log.contains("its Node has 10.7.0.0/24 now"), "{log}");
        // Translation goes on.
        let answer = world.pod().enter(|| tcp(IP, 80).ask(REQUEST));
        assert_eq!(answer.unwrap().name, "pod-d");
    }
}

#[test]
fn health_is_answered_while_the_ranges_are_waited_for() {
    if !has_root() {
        return;
    }
    let sandbox = Sandbox::new().unwrap();
    let server = ApiServer::start(sandbox.node()).unwrap();
    server.put(with_ranges(&[]));
    let pins = PinDir::new();
    let ask = |path: &str| {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 10_256));
        let answer = sandbox.node().enter(|| http_get(at, path, &[]));
        answer.ok().map(|answer| answer.status)
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let asked = || {
                let requests = server.requests();
                let nodes = requests
                    .iter()
                    .filter(|uri| uri.starts_with("/api/v1/nodes"));
                (nodes.count() > 1).then_some(())
            };
            let alive = wait_until("the ranges are waited for", SOON, asked)
                .and_then(|()| wait_until("health is answered", SOON, || ask("/livez")));
            let eligible = ask("/healthz");
            // Before the agent gives up, whatever comes of it.
            server.put(with_ranges(&RANGES));
            assert_eq!(alive.unwrap(), 200);
            assert_eq!(eligible, Some(503), "nobody knows the node yet");
        });
        let flags = ["--detect-local-mode", "NodeCIDR"];
        let agent = follow(&sandbox, &server, &pins, Pods::ByNode, &flags);
        let log = agent.log();
        let waited = "waiting for spec.podCIDRs of the Node node-1: it has none";
        assert!(log.contains(waited), "{log}");
    });
}
