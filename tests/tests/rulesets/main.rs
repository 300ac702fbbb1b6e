//! The rulesets of the benches: their contents, and that the tools take them. (A bench has no tests of its own.)

mod iptables;
mod names;
mod nftables;
mod tools;

use std::net::SocketAddrV4;

use shunt_tests::{
    Transport,
    rulesets::{Node, Service},
};

/// A service at 10.96.0.`ip`:80 and a NodePort, whose endpoints are these hosts of 10.1.2.0/24.
fn service(name: &str, ip: u8, protocol: Transport, hosts: &[u8]) -> Service {
    Service {
        name: name.to_owned(),
        protocol,
        cluster_ip: [10, 96, 0, ip].into(),
        port: 80,
        node_port: Some(30_000 + u16::from(ip)),
        endpoints: hosts
            .iter()
            .map(|&host| SocketAddrV4::new([10, 1, 2, host].into(), 8080))
            .collect(),
    }
}

fn node() -> Node {
    Node {
        address: [192, 168, 16, 10].into(),
        pod_cidr: "10.1.0.0/16".to_owned(),
        service_cidr: "10.96.0.0/12".to_owned(),
    }
}
