//! kube-proxy's rules in a sandbox of their own: what the same clients meet there, beside an agent.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use shunt_tests::{
    Sandbox, Transport, addresses,
    rulesets::{self, nftables},
};

use crate::{service::Service, world::SERVED};

/// A sandbox whose node has the nftables rules for these services, and whose backend pods serve. `None`,
/// with a word about it, without root.
pub(crate) fn ruled(services: &[rulesets::Service]) -> Option<Sandbox> {
    let sandbox = Sandbox::serving(SERVED)?;
    let text = nftables::load(&node(), services);
    let loaded = sandbox.node().run_with_input("nft", &["-f", "-"], &text);
    loaded.unwrap();
    Some(sandbox)
}

/// The frontends of [`Service`] with these pods behind them, as rules.
pub(crate) fn web(pods: &[IpAddr]) -> rulesets::Service {
    let service = Service::new(Transport::Tcp);
    let cluster_ip = v4(service.cluster_ip().address());
    rulesets::Service {
        node_port: Some(service.node_port().address().port()),
        ..rule(*cluster_ip.ip(), pods)
    }
}

/// A service at this ClusterIP with these pods behind it.
pub(crate) fn rule(cluster_ip: Ipv4Addr, pods: &[IpAddr]) -> rulesets::Service {
    let endpoints = pods.iter().map(|pod| v4(SocketAddr::new(*pod, SERVED)));
    rulesets::Service {
        name: format!("s{}", cluster_ip.octets()[3]),
        protocol: Transport::Tcp,
        cluster_ip,
        port: 80,
        node_port: None,
        endpoints: endpoints.collect(),
    }
}

fn node() -> rulesets::Node {
    rulesets::Node {
        address: *v4(SocketAddr::new(addresses::NODE, 0)).ip(),
        pod_cidr: "10.1.0.0/16".to_owned(),
        service_cidr: "10.96.0.0/16".to_owned(),
    }
}

fn v4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(_) => panic!("{address} is no IPv4 address: the rules are for these alone"),
    }
}
