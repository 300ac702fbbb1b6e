//! Services of both address families: each family is judged by itself.

use shunt_model::Refusal;

use crate::world::{World, service};

const NODES: [&str; 4] = [
    "192.168.16.10",
    "192.168.16.20",
    "2001:db8:16::10",
    "2001:db8:16::20",
];

/// A service with addresses of both families under this policy, with these backends.
fn dual(policy: &str, backends: &str) -> World {
    let fields = format!(
        r#""cluster_ips":["2001:db8:96::1","10.96.0.1"],
           "external_ips":["203.0.113.7","2001:db8:113::7"],"traffic_policy":"{policy}",
           "ports":{{"http":{{"protocol":"TCP","port":80,"node_port":30080}}}},
           "backends":{{"http":[{backends}]}}"#
    );
    World::synced(&NODES, &[&service("web", &fields)])
}

const V4_LOCAL: &str = r#"{"ip":"10.1.1.3","port":8080,"local":true}"#;
const V4_REMOTE: &str = r#"{"ip":"10.1.2.3","port":8080}"#;
const V6_LOCAL: &str = r#"{"ip":"2001:db8:1::3","port":8080,"local":true}"#;
const V6_REMOTE: &str = r#"{"ip":"2001:db8:2::3","port":8080}"#;
const V6_NOT_READY: &str = r#"{"ip":"2001:db8:2::3","port":8080,"state":"NotReady"}"#;

/// The backends of the frontend at this address, and what becomes of its clients without them.
fn at(world: &World, address: &str) -> (Vec<String>, Refusal) {
    let address: std::net::IpAddr = address.parse().unwrap();
    let mut frontends = world.renderer.frontends();
    let (_, frontend) = frontends
        .find(|(key, _)| key.address == address)
        .unwrap_or_else(|| panic!("there is a frontend at {address}"));
    let backends = frontend.backends.backends.iter();
    (
        backends.map(|backend| backend.ip.to_string()).collect(),
        frontend.refusal,
    )
}

#[test]
fn one_list_of_backends_serves_each_family_with_its_own() {
    let list = [V6_REMOTE, V4_LOCAL, V6_LOCAL, V4_REMOTE].join(",");
    dual("Cluster", &list).expect(&[
        "10.96.0.1:80/TCP ClusterIP Cluster default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
        "192.168.16.10:30080/TCP NodePort Cluster default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
        "192.168.16.20:30080/TCP NodePort Cluster this-node default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
        "203.0.113.7:80/TCP ExternalIP Cluster default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
        "[2001:db8:16::10]:30080/TCP NodePort Cluster default/web: [2001:db8:1::3]:8080*1 local, [2001:db8:2::3]:8080*1",
        "[2001:db8:16::20]:30080/TCP NodePort Cluster this-node default/web: [2001:db8:1::3]:8080*1 local, [2001:db8:2::3]:8080*1",
        "[2001:db8:96::1]:80/TCP ClusterIP Cluster default/web: [2001:db8:1::3]:8080*1 local, [2001:db8:2::3]:8080*1",
        "[2001:db8:113::7]:80/TCP ExternalIP Cluster default/web: [2001:db8:1::3]:8080*1 local, [2001:db8:2::3]:8080*1",
    ]);
}

#[test]
fn a_family_without_usable_backends_rejects_and_the_other_one_serves() {
    for v6 in [&[][..], &[V6_NOT_READY]] {
        let list = [&[V4_LOCAL], v6].concat().join(",");
        let world = dual("Cluster", &list);
        for address in ["10.96.0.1", "192.168.16.10", "203.0.113.7"] {
            assert_eq!(at(&world, address).0, ["10.1.1.3"], "{address}");
        }
        for address in ["2001:db8:96::1", "2001:db8:16::10", "2001:db8:113::7"] {
            assert_eq!(
                at(&world, address),
                (vec![], Refusal::Reject),
                "{address} with {v6:?}"
            );
        }
    }
}

#[test]
fn policy_local_looks_for_backends_elsewhere_in_its_own_family() {
    for (name, backends, v4, v6) in [
        (
            "IPv6 ones are elsewhere",
            [V4_LOCAL, V6_REMOTE],
            (vec!["10.1.1.3"], Refusal::Drop),
            (vec![], Refusal::Drop),
        ),
        (
            "IPv4 ones are elsewhere, and there are no IPv6 ones at all",
            [V4_REMOTE, V6_NOT_READY],
            (vec![], Refusal::Drop),
            (vec![], Refusal::Reject),
        ),
    ] {
        let world = dual("Local", &backends.join(","));
        for (address, (backends, refusal)) in [("203.0.113.7", v4), ("2001:db8:113::7", v6)] {
            let backends = backends.into_iter().map(str::to_owned).collect();
            assert_eq!(
                at(&world, address),
                (backends, refusal),
                "{address}: {name}"
            );
        }
    }
}

#[test]
fn source_ranges_of_one_family_leave_the_other_open() {
    let fields = r#""load_balancer_ips":["198.51.100.1","2001:db8:51::1"],
        "load_balancer_source_ranges":["2001:db8:7::/48"],
        "ports":{"http":{"protocol":"TCP","port":80}}"#;
    World::synced(&NODES, &[&service("web", fields)]).expect(&[
        "198.51.100.1:80/TCP LoadBalancerIP Cluster default/web: none",
        "[2001:db8:51::1]:80/TCP LoadBalancerIP Cluster from 2001:db8:7::/48 default/web: none",
    ]);
}

#[test]
fn a_service_that_becomes_single_stack_loses_the_other_family_s_frontends_alone() {
    let both = r#""cluster_ips":["10.96.0.1","2001:db8:96::1"]"#;
    let one = r#""cluster_ips":["10.96.0.1"]"#;
    let rest = format!(
        r#""ports":{{"http":{{"protocol":"TCP","port":80,"node_port":30080}}}},"backends":{{"http":[{V4_LOCAL}]}}"#
    );
    let with = |ips: &str| service("web", &format!("{ips},{rest}"));
    let mut world = World::synced(&NODES, &[&with(both)]);
    let outcome = world.tell(&crate::world::update(&with(one)));
    assert_eq!(
        outcome.counts(),
        (0, 0, 3),
        "the ClusterIP and two NodePorts of IPv6"
    );
    let left = world.frontends();
    assert!(
        left.iter().all(|frontend| !frontend.starts_with('[')),
        "{left:?}"
    );
}
