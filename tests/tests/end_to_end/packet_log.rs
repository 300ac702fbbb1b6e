//! The packet log speaks of clients, frontends and backends.

use std::{net::IpAddr, time::Duration};

use serde_json::json;
use shunt_tests::{Transport, addresses, wait_until};

use crate::{
    service::Service,
    world::{REQUEST, World},
};

const SOON: Duration = Duration::from_secs(5);

/// An address before the colon of a port.
fn host(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// Waits for a line with all of these, one after the other.
fn is_logged(world: &World, parts: [&str; 3]) {
    let is_there = || {
        world.agent.log().lines().any(|line| {
            let mut rest = line;
            parts.iter().all(|part| match rest.split_once(part) {
                Some((_, after)) => {
                    rest = after;
                    true
                }
                None => false,
            })
        })
    };
    wait_until("the packet is told of", SOON, || is_there().then_some(()))
        .unwrap_or_else(|error| panic!("{error}: {parts:?}\n{}", world.agent.log()));
}

#[test]
fn the_packet_log_names_client_frontend_and_backend() {
    let Some(mut world) = World::with_flags(&["--packet-log", "debug"]) else {
        return;
    };
    let [v4, v6] = [world.backend("pod-a"), world.backend_v6("pod-a")];
    let service = Service::new(Transport::Tcp)
        .dual_stack()
        .backend(v4)
        .backend(v6);
    world.add(&service);
    for (target, client, backend) in [
        (service.cluster_ip(), addresses::POD_C, v4),
        (service.cluster_ip_v6(), addresses::v6(addresses::POD_C), v6),
    ] {
        world.ask_from_pod(target, 1);
        is_logged(
            &world,
            [
                &format!("connection of client {}:", host(client)),
                &format!(" to frontend {} goes to backend ", target.address()),
                &backend.to_string(),
            ],
        );
    }

    // Of both families, an address from outside that no backend of this node serves.
    let mut unserved = Service::new(Transport::Tcp)
        .dual_stack()
        .backend(world.backend("pod-d"))
        .backend(world.backend_v6("pod-d"))
        .json();
    unserved["traffic_policy"] = json!("Local");
    world.apply(&json!({ "event": "UpdateService", "service": unserved }).to_string());
    for (target, client) in [
        (service.external_ip(), addresses::OUTSIDE),
        (service.external_ip_v6(), addresses::v6(addresses::OUTSIDE)),
    ] {
        let outside = world.sandbox.outside();
        let answer = outside.enter(|| target.within(Duration::from_millis(300)).ask(REQUEST));
        assert!(answer.is_err(), "{answer:?}");
        is_logged(
            &world,
            [
                &format!("packet of client {}:", host(client)),
                &format!(" to frontend {} dropped, ", target.address()),
                "reason drop_no_backend",
            ],
        );
    }
}
