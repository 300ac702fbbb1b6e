//! From abstract operations to events and packets, among what there is when their turn comes.

use std::net::IpAddr;

use super::{
    addresses::{
        self, BACKEND_IPS, CLIENT_IPS, CLIENT_PORTS, HAIRPIN, NODE, ODD_IPS, OTHER_NODE, Pair,
    },
    cluster::{Backend, Endpoint, Event, Protocol, Service},
    flow::{Ends, Flow},
    frontends::Cluster,
    model::Hook,
    operations::{Change, Pick, Tweak, Way, pick, scopes_of, sorted},
};

/// Number of flows that are remembered to send packets of.
const FLOWS: usize = 24;

/// The ends of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FourEnds {
    protocol: Protocol,
    client: Endpoint,
    frontend: Endpoint,
    source: Endpoint,
    backend: Endpoint,
}

/// The flows that were opened of late, whatever has become of them.
#[derive(Default)]
pub(crate) struct Opened(Vec<FourEnds>);

impl Opened {
    /// Remembers a flow.
    pub(crate) fn note(&mut self, flow: &Flow) {
        let Self(opened) = self;
        let ends = FourEnds {
            protocol: flow.protocol,
            client: flow.client,
            frontend: flow.frontend,
            source: flow.source,
            backend: flow.backend,
        };
        if opened.contains(&ends) {
            return;
        }
        if opened.len() == FLOWS {
            opened.remove(0);
        }
        opened.push(ends);
    }
}

/// The event that a change is, if it is one now.
pub(crate) fn event(cluster: &Cluster, change: &Change) -> Option<Event> {
    let services = &cluster.services;
    let existing = |number: &Pick| -> Option<Service> {
        Some(services[pick(services.keys(), *number)?].clone())
    };
    // Without an address of its own, the node drops some connections, and who was chosen for them
    // cannot be seen.
    let nodes = |other: bool| {
        let others = other.then_some(OTHER_NODE).into_iter();
        let nodes = [NODE].into_iter().chain(others);
        nodes.flat_map(Pair::both).collect()
    };
    Some(match change {
        Change::Put {
            service,
            update: true,
        } => Event::Update(service.clone()),
        Change::Put { service, .. } => Event::Add(service.clone()),
        Change::Delete { service } => Event::Delete(existing(service)?.id),
        Change::Tweak { service, tweak } => {
            let mut service = existing(service)?;
            apply(tweak, &mut service);
            Event::Update(service.without_foreign_backends())
        }
        Change::NodePorts {
            other_node,
            services,
        } => Event::NodePorts(nodes(*other_node), services.clone()),
        Change::Nodes(nodes) => Event::Nodes(nodes.clone()),
        Change::Resync {
            other_node,
            nodes: named,
            kept,
            services: new,
        } => {
            let replaced = |id| new.iter().any(|service| service.id == id);
            let old = services
                .values()
                .filter(|old| kept & 1 << old.id != 0 && !replaced(old.id));
            let all = old.chain(new).cloned().collect();
            Event::Resync(nodes(*other_node), named.clone(), all)
        }
    })
}

/// Between whom the packet of an operation goes now, and where it comes in; of `protocol` if it
/// has no other.
pub(crate) fn ends(
    cluster: &Cluster,
    opened: &Opened,
    way: &Way,
    protocol: Protocol,
) -> (Hook, Ends) {
    let opened = |number: &Pick| pick(opened.0.iter().copied(), *number);
    let (hook, (protocol, source, destination)) = match way {
        Way::ToFrontend { frontend, client } => {
            let keys = cluster.frontends.keys().copied();
            let any = (protocol, any_endpoint(*frontend, None));
            let (protocol, frontend) = pick(keys, *frontend).unwrap_or(any);
            (
                Hook::Ingress,
                (protocol, client_endpoint(*client, frontend.ip), frontend),
            )
        }
        Way::ToDsr { frontend, client } => {
            let all = cluster.frontends.iter();
            let keys = all.filter_map(|(key, frontend)| frontend.is_dsr.then_some(*key));
            let any = (protocol, any_endpoint(*frontend, None));
            let (protocol, frontend) = pick(keys, *frontend).unwrap_or(any);
            let client = client_endpoint(*client, frontend.ip);
            let ends = (protocol, elsewhere(client, cluster), frontend);
            (Hook::Ingress, ends)
        }
        Way::Request { flow } => match opened(flow) {
            Some(flow) => (Hook::Ingress, (flow.protocol, flow.client, flow.frontend)),
            None => (Hook::Ingress, stray(protocol, *flow, *flow)),
        },
        Way::Reply { flow } => match opened(flow) {
            Some(flow) if flow.source.ip != flow.client.ip => {
                (Hook::Ingress, (flow.protocol, flow.backend, flow.source))
            }
            Some(flow) => (Hook::Egress, (flow.protocol, flow.backend, flow.source)),
            None => (Hook::Egress, stray(protocol, *flow, *flow)),
        },
        Way::Elsewhere { flow, which } => match opened(flow) {
            Some(flow) => {
                let (hook, source, destination) = match which {
                    0 => (Hook::Egress, flow.source, flow.backend),
                    1 => (Hook::Egress, flow.frontend, flow.client),
                    2 => (Hook::Egress, flow.client, flow.frontend),
                    3 => (Hook::Ingress, flow.backend, flow.source),
                    5 => (Hook::Ingress, flow.client, flow.backend),
                    6 => (Hook::Ingress, flow.source, flow.backend),
                    _ => (Hook::Egress, flow.backend, flow.source),
                };
                (hook, (flow.protocol, source, destination))
            }
            None => (Hook::Egress, stray(protocol, *flow, *flow)),
        },
        Way::Stray {
            egress,
            source,
            destination,
        } => {
            let hook = if *egress { Hook::Egress } else { Hook::Ingress };
            (hook, stray(protocol, *source, *destination))
        }
    };
    let ends = Ends {
        protocol,
        source,
        destination,
    };
    (hook, ends)
}

/// A client of the family of `like`.
fn client_endpoint(number: Pick, like: IpAddr) -> Endpoint {
    let number = usize::from(number);
    let ips = if number % 64 == 63 {
        &ODD_IPS[..]
    } else {
        &CLIENT_IPS
    };
    let ips: Vec<IpAddr> = ips
        .iter()
        .copied()
        .filter(|ip| ip.is_ipv4() == like.is_ipv4())
        .collect();
    Endpoint {
        ip: ips[number / 64 % ips.len()],
        port: CLIENT_PORTS[number % CLIENT_PORTS.len()],
    }
}

/// The client, or one elsewhere in place of one on this node.
fn elsewhere(client: Endpoint, cluster: &Cluster) -> Endpoint {
    let mut others = CLIENT_IPS
        .into_iter()
        .filter(|ip| ip.is_ipv4() == client.ip.is_ipv4() && !cluster.is_on_this_node(*ip));
    let other = others.next().filter(|_| cluster.is_on_this_node(client.ip));
    Endpoint {
        ip: other.unwrap_or(client.ip),
        port: client.port,
    }
}

/// Any endpoint; of the family of `like`, if there is one.
pub(crate) fn any_endpoint(number: Pick, like: Option<IpAddr>) -> Endpoint {
    let hairpin = HAIRPIN.both();
    let ips: Vec<IpAddr> = [
        &addresses::SERVICE_IPS[..],
        &BACKEND_IPS,
        &CLIENT_IPS,
        &ODD_IPS,
        &hairpin,
    ]
    .concat();
    let of_family = |ip: &IpAddr| like.is_none_or(|like| like.is_ipv4() == ip.is_ipv4());
    let ips: Vec<IpAddr> = ips.into_iter().filter(of_family).collect();
    let ports = [
        &addresses::SERVICE_PORTS[..],
        &addresses::BACKEND_PORTS,
        &CLIENT_PORTS,
        &[0, 81],
    ]
    .concat();
    let number = usize::from(number);
    Endpoint {
        ip: ips[number % ips.len()],
        port: ports[number / ips.len() % ports.len()],
    }
}

fn stray(protocol: Protocol, source: Pick, destination: Pick) -> (Protocol, Endpoint, Endpoint) {
    let source = any_endpoint(source, None);
    (protocol, source, any_endpoint(destination, Some(source.ip)))
}

fn apply(tweak: &Tweak, service: &mut Service) {
    let change = |service: &mut Service, number: &Pick, change: &dyn Fn(&mut Backend)| {
        if let Some((port, at)) = place(service, *number) {
            let mut backends = service.ports[port].backends.iter_mut();
            if let Some(backend) = backends.find(|backend| backend.at == at) {
                change(backend);
            }
        }
    };
    match tweak {
        Tweak::Weight(number, weight) => {
            change(service, number, &|backend| backend.weight = *weight);
        }
        Tweak::State(number, state) => change(service, number, &|backend| backend.state = *state),
        Tweak::Scopes(number, bits) => change(service, number, &|backend| {
            backend.scopes = bits.map(|bits| scopes_of(bits, backend.local));
        }),
        Tweak::RemoveBackend(index) => {
            if let Some((port, at)) = place(service, *index) {
                let backends = &mut service.ports[port].backends;
                backends.retain(|backend| backend.at != at);
            }
        }
        Tweak::AddBackend(index, backend) => {
            let port = usize::from(*index) % service.ports.len();
            let backends = &mut service.ports[port].backends;
            backends.push(backend.clone());
            *backends = sorted(std::mem::take(backends));
        }
        Tweak::ExternalPolicy(policy) => service.external_policy = *policy,
        Tweak::InternalPolicy(policy) => service.internal_policy = *policy,
        Tweak::Exchange(index, backends) => {
            let port = usize::from(*index) % service.ports.len();
            service.ports[port].backends.clone_from(backends);
        }
        Tweak::Split(index, split) => {
            let port = usize::from(*index) % service.ports.len();
            service.ports[port].split.clone_from(split);
            service.without_what_splits_exclude();
        }
    }
}

/// A backend of one of the service's ports.
fn place(service: &Service, number: Pick) -> Option<(usize, Endpoint)> {
    let ports = service.ports.iter().enumerate();
    let places = ports.flat_map(|(port, of_port)| {
        let backends = of_port.backends.iter();
        backends.map(move |backend| (port, backend.at))
    });
    pick(places, number)
}
