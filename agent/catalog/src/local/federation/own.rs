//! The gateways of the own datacenter: those that are registered here, and frontends that are offered.

use std::{collections::BTreeMap, net::SocketAddr};

use crate::{
    instances::{
        frontend::{Frontend, Vip},
        query::{Query, QueryKind},
        tier::{Datacenter, Export, GATEWAYS, OF_CONNECT, OF_PROTOCOL, OF_SERVICE, Tier},
        translate::has_usable,
    },
    local::{
        federation::record::{Check, Gateway, Node, Service, TaggedAddress},
        instances::instances,
        registrar::{LocalNode, Registrar},
        state::{registry::Registry, service::Registered},
    },
};

/// The kind of gateways that lead by the names that clients send in TLS.
const MESH_GATEWAY: &str = "mesh-gateway";

/// All gateways of this datacenter, as they are now, in an order that does not change by itself.
pub(super) fn own_gateways(
    registrar: &Registrar,
    frontends: &[Frontend],
    datacenter: &str,
) -> Vec<Gateway> {
    let registry = registrar.look();
    let node = node(registrar.node(), datacenter);
    let services = registry.known().services().map(|it| &**it);
    let registered = services.filter(|it| is_gateway(&it.service.kind, &it.service.name));
    let registered = registered.map(|it| of_service(it, &registry, &node));
    let offered = frontends.iter().flat_map(|frontend| {
        let is_served = is_served(frontend, &registry, registrar.node());
        of_frontend(frontend, is_served, &node)
    });
    let mut gateways: Vec<Gateway> = registered.chain(offered).collect();
    gateways.sort_by(|one, other| one.service.id.cmp(&other.service.id));
    gateways
}

fn is_gateway(kind: &str, name: &str) -> bool {
    kind == MESH_GATEWAY || (kind.is_empty() && name == GATEWAYS)
}

fn node(node: &LocalNode, datacenter: &str) -> Node {
    Node {
        node: node.name.clone(),
        address: node.address.map(|ip| ip.to_string()).unwrap_or_default(),
        datacenter: datacenter.to_owned(),
    }
}

/// Returns a gateway that was registered. Outputs of checks are left out: they are no news.
fn of_service(registered: &Registered, registry: &Registry, node: &Node) -> Gateway {
    let service = &registered.service;
    let checks = registry.known().checks_of(&service.id).map(|check| Check {
        node: node.node.clone(),
        id: check.id.clone(),
        status: registry.status(check).name().to_owned(),
        service_id: service.id.clone(),
    });
    let tagged = service.tagged_addresses.iter().map(|(tag, tagged)| {
        let tagged = TaggedAddress {
            address: tagged.address.clone(),
            port: tagged.port,
        };
        (tag.clone(), tagged)
    });
    Gateway {
        node: node.clone(),
        service: Service {
            kind: service.kind.clone(),
            id: service.id.clone(),
            service: service.name.clone(),
            address: service.address.clone(),
            port: service.port,
            meta: service.meta.clone(),
            tagged_addresses: tagged.collect(),
        },
        checks: checks.collect(),
    }
}

/// Returns whether an instance behind an offered frontend takes new connections.
fn is_served(frontend: &Frontend, registry: &Registry, node: &LocalNode) -> bool {
    let tier = Tier::of(&frontend.service, Datacenter::Own);
    let query = Query {
        service: frontend.service.clone(),
        kind: if frontend.connect {
            QueryKind::Connect
        } else {
            QueryKind::Service
        },
        datacenter: Datacenter::Own,
        filter: None,
    };
    has_usable(frontend, &tier, &instances(&query, registry, node))
}

/// Returns the gateways that an offered frontend is, one for each of its addresses. Their check shows whether
/// an instance is behind them: other datacenters cannot ask.
fn of_frontend(frontend: &Frontend, is_served: bool, node: &Node) -> Vec<Gateway> {
    let (Some(export), Vip::Fixed(ips), Some(port)) =
        (&frontend.export, &frontend.vip, frontend.port)
    else {
        return Vec::new();
    };
    let status = if is_served { "passing" } else { "critical" };
    let meta = [
        (OF_SERVICE, frontend.service.to_string()),
        (OF_PROTOCOL, frontend.protocol.name().to_ascii_lowercase()),
        (OF_CONNECT, frontend.connect.to_string()),
    ];
    let meta: BTreeMap<String, String> = meta
        .map(|(key, value)| (key.to_owned(), value))
        .into_iter()
        .collect();
    let of = |ip| {
        let own = SocketAddr::new(ip, port);
        let wan = match export {
            Export::AsIs => own,
            Export::At(at) => *at,
        };
        let wan = TaggedAddress {
            address: wan.ip().to_string(),
            port: wan.port().into(),
        };
        let id = format!("{GATEWAYS}:{}:{}:{own}", node.node, frontend.id.name);
        Gateway {
            node: node.clone(),
            checks: vec![Check {
                node: node.node.clone(),
                id: format!("behind:{id}"),
                status: status.to_owned(),
                service_id: id.clone(),
            }],
            service: Service {
                kind: String::new(),
                id,
                service: GATEWAYS.to_owned(),
                address: own.ip().to_string(),
                port: port.into(),
                meta: meta.clone(),
                tagged_addresses: [("wan".to_owned(), wan)].into(),
            },
        }
    };
    ips.iter().copied().map(of).collect()
}
