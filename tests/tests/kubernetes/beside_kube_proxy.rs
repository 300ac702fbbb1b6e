//! Beside kube-proxy, which serves the cluster's Services but for those that name this agent.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use serde_json::Value;
use shunt_tests::{
    ApiServer, Sandbox, Transport, addresses, has_program,
    rulesets::{Node, Service, nftables},
};

use crate::{
    objects::{SERVED, and, node, ready, service, service_cidr, slice},
    world::{Pods, World, is_silent, tcp},
};

/// A Service that names this agent.
const OURS: &str = "10.96.0.20";

/// One that names no proxy, and so is kube-proxy's.
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

const NAME: &str = "service.kubernetes.io/service-proxy-name";

fn v4(address: IpAddr) -> Ipv4Addr {
    match address {
        IpAddr::V4(v4) => v4,
        IpAddr::V6(v6) => panic!("{v6} is of another family"),
    }
}

/// kube-proxy has written its rules, and the cluster has a Service of each.
fn prepare(sandbox: &Sandbox, server: &ApiServer) {
    let this = Node {
        address: v4(addresses::NODE),
        pod_cidr: addresses::POD_CIDR.to_owned(),
        service_cidr: "10.96.0.0/16".to_owned(),
    };
    let theirs = Service {
        name: "theirs".to_owned(),
        protocol: Transport::Tcp,
        cluster_ip: THEIRS,
        port: 80,
        node_port: None,
        endpoints: vec![SocketAddrV4::new(v4(addresses::POD_A), SERVED)],
    };
    let rules = nftables::load(&this, &[theirs]);
    let loaded = sandbox.node().run_with_input("nft", &["-f", "-"], &rules);
    loaded.unwrap();
    server.put(node("node-1", addresses::NODE));
    server.put(service_cidr("kubernetes", &["10.96.0.0/16"]));
    server.put(service("theirs", &THEIRS.to_string()));
    server.put(slice("theirs", "4", &[ready(addresses::POD_A)]));
    let labelled = |object: Value| and(object, "/metadata/labels", NAME, "shunt");
    server.put(labelled(service("ours", OURS)));
    server.put(labelled(slice("ours", "4", &[ready(addresses::POD_B)])));
}

fn beside(flags: &[&str]) -> Option<World> {
    if !has_program("nft") {
        return None;
    }
    let flags = [&["--service-proxy-name", "shunt"], flags].concat();
    World::start(&flags, Pods::ByFlag, prepare)
}

#[test]
fn what_kube_proxy_serves_stays_its_own() {
    let Some(world) = beside(&[]) else {
        return;
    };
    let theirs = tcp(&THEIRS.to_string(), 80);
    for from in [world.pod(), world.sandbox.outside()] {
        world.await_pods(from, tcp(OURS, 80), &["pod-b"]);
        world.await_pods(from, theirs, &["pod-a"]);
    }
    let key = SocketAddr::from((THEIRS, 80)).to_string();
    let frontends = world.frontends();
    assert!(
        !frontends.keys().any(|frontend| frontend.starts_with(&key)),
        "{frontends:?}"
    );
}

#[test]
fn a_guard_that_is_asked_for_takes_their_addresses_for_free_ones() {
    let Some(world) = beside(&["--guard"]) else {
        return;
    };
    world.await_pods(world.pod(), tcp(OURS, 80), &["pod-b"]);
    world.await_failure(world.pod(), tcp(&THEIRS.to_string(), 80), is_silent);
}
