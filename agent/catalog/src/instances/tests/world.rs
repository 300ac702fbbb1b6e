//! A service with instances, and a frontend of it.

use std::net::IpAddr;

use shunt_model::{Endpoint, EndpointState};

use crate::instances::{
    configuration::parse::parse,
    frontend::Frontend,
    instance::{Check, CheckStatus, Instance, TaggedAddress, Weights},
    place::Place,
    tier::{Datacenter, Tier},
    translate::{Candidates, Translation, translate},
    vip::Address,
};

/// The agent's place.
pub(super) fn place() -> Place {
    Place {
        node: "n1".into(),
        datacenter: "dc1".into(),
        here: None,
    }
}

/// The instance of `web` at port 8080 of this address, on another node than the agent's, without checks.
pub(super) fn instance(address: &str) -> Instance {
    Instance {
        node: "n2".into(),
        datacenter: "dc1".into(),
        node_address: "10.1.0.2".into(),
        service: "web".into(),
        id: address.into(),
        address: address.into(),
        port: 8080,
        ..Instance::default()
    }
}

/// Changes of an instance, one after the other.
impl Instance {
    pub(super) fn on(mut self, node: &str) -> Self {
        self.node = node.into();
        self
    }

    pub(super) fn in_datacenter(mut self, datacenter: &str) -> Self {
        self.datacenter = datacenter.into();
        self
    }

    pub(super) fn tagged(mut self, tag: &str, address: &str, port: i64) -> Self {
        let address = TaggedAddress {
            address: address.into(),
            port,
        };
        self.tagged_addresses.insert(tag.into(), address);
        self
    }

    pub(super) fn port(mut self, port: i64) -> Self {
        self.port = port;
        self
    }

    pub(super) fn checked(mut self, id: &str, status: &str) -> Self {
        self.checks.push(Check {
            id: id.into(),
            status: CheckStatus::of_name(status),
        });
        self
    }

    pub(super) fn weighing(mut self, passing: i64, warning: i64) -> Self {
        self.weights = Some(Weights { passing, warning });
        self
    }
}

/// The frontend of `web` with these lines besides.
pub(super) fn frontend(lines: &str) -> Frontend {
    frontend_at("vip = \"10.200.0.1\"\nport = 80", lines)
}

/// That at this address.
pub(super) fn frontend_at(address: &str, lines: &str) -> Frontend {
    let text = format!("[[frontend]]\nservice = \"web\"\n{address}\n{lines}\n");
    let mut frontends = parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(frontends.len(), 1);
    frontends.remove(0)
}

/// Translates the frontend with these instances, at addresses of these families.
pub(super) fn translated(frontend: &Frontend, ips: &[&str], tiers: &[&[Instance]]) -> Translation {
    let address = Address {
        ips: ips.iter().map(|ip| ip.parse().unwrap()).collect(),
        port: 80,
    };
    let own = Tier::of("web", Datacenter::Own);
    let tiers = tiers.iter().map(|instances| Candidates {
        tier: &own,
        instances,
        gateways: None,
    });
    translate(frontend, &address, tiers, &place())
}

/// The endpoints with their weights; one on its way out has none.
pub(super) fn endpoints(translation: &Translation) -> Vec<(String, Option<u32>)> {
    let endpoints = translation.service.ports[0].endpoints.iter();
    endpoints
        .map(|endpoint| {
            let Endpoint {
                ip,
                port,
                weight,
                state,
                ..
            } = endpoint;
            let weight = (*state == EndpointState::Ready).then_some(*weight);
            (std::net::SocketAddr::new(*ip, *port).to_string(), weight)
        })
        .collect()
}

/// Returns the endpoints of an IPv4 frontend in one tier.
pub(super) fn simply(frontend: &Frontend, instances: &[Instance]) -> Vec<(String, Option<u32>)> {
    endpoints(&translated(frontend, &["10.200.0.1"], &[instances]))
}

/// The addresses of those that take connections.
pub(super) fn taking(frontend: &Frontend, tiers: &[&[Instance]]) -> Vec<String> {
    let found = endpoints(&translated(frontend, &["10.200.0.1"], tiers)).into_iter();
    found
        .filter(|(_, weight)| weight.is_some_and(|weight| weight > 0))
        .map(|(at, _)| at)
        .collect()
}

/// Parses an address.
pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
