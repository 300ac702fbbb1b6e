//! The model's services: which frontend belongs to whom, and who may be chosen there.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{
    addresses,
    cluster::{Backend, Endpoint, Event, Policy, Port, PortName, Protocol, Service, ServiceId},
    nodes::Nodes,
    split::Shares,
};

/// Destination of a client.
pub(crate) type FrontendKey = (Protocol, Endpoint);

/// A backend of a service port, for as long as the port has it without a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Member {
    pub service: ServiceId,
    pub port: PortName,
    /// True if it is one of a frontend's that has no split while others of the port have one.
    pub is_beside_split: bool,
    pub at: Endpoint,
}

/// The kind of address of a frontend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ClusterIp,
    ExternalIp,
    LoadBalancerIp,
    NodePort,
}

/// A frontend and the service port that has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frontend {
    pub service: ServiceId,
    pub port: PortName,
    pub kind: Kind,
    /// True if others of the port have a split.
    pub is_beside_split: bool,
    is_ipv4: bool,
    /// The NodePort of another node's address is for clients on this node.
    pub this_node_only: bool,
    /// Packets for it go to their backends' nodes in envelopes.
    pub is_dsr: bool,
    policy: Policy,
}

impl Frontend {
    /// The backend at this place, as one of this frontend's.
    pub(crate) const fn member(&self, at: Endpoint) -> Member {
        let &Self {
            service,
            port,
            is_beside_split,
            ..
        } = self;
        Member {
            service,
            port,
            is_beside_split,
            at,
        }
    }

    /// The set that a client is served from.
    pub(crate) fn set_for(&self, on_this_node: bool) -> Policy {
        let external = self.kind != Kind::ClusterIp;
        if external && on_this_node {
            return Policy::Cluster;
        }
        self.policy
    }
}

/// A service's claim: that to a ClusterIP has the frontend, or else the older one. A NodePort is claimed on all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Address(FrontendKey),
    NodePort(Protocol, u16),
}

/// The state from all events.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cluster {
    pub nodes: BTreeSet<IpAddr>,
    pub services: BTreeMap<ServiceId, Service>,
    pub frontends: BTreeMap<FrontendKey, Frontend>,
    pub(super) named: Nodes,
    /// The services that would have a frontend in mode dsr if they were alone.
    dsr: BTreeSet<ServiceId>,
    claims: BTreeMap<(ServiceId, Claim), u64>,
    members: BTreeMap<Member, u64>,
    /// Numbers claims and memberships in the order of their beginning.
    last: u64,
}

impl Cluster {
    /// Applies an event; `false` and no effect if it must be refused.
    pub(crate) fn apply(&mut self, event: &Event) -> bool {
        let (Event::Resync(_, _, services) | Event::NodePorts(_, services)) = event else {
            if let Event::Add(service) | Event::Update(service) = event {
                if overflows(service) {
                    return false;
                }
                self.put(service);
            }
            if let Event::Delete(id) = event {
                self.remove(*id);
            }
            if let Event::Nodes(nodes) = event {
                self.named.clone_from(nodes);
            }
            self.recompute();
            return true;
        };
        if services.iter().any(overflows) {
            return false;
        }
        if let Event::Resync(nodes, _, _) | Event::NodePorts(nodes, _) = event {
            self.nodes = nodes.iter().copied().collect();
        }
        if let Event::Resync(_, named, _) = event {
            self.named.clone_from(named);
            let known: Vec<ServiceId> = self.services.keys().copied().collect();
            for id in known {
                if services.iter().all(|service| service.id != id) {
                    self.remove(id);
                }
            }
        }
        for service in services {
            self.put(service);
        }
        self.recompute();
        true
    }

    /// A service that has a frontend now which another service port has after the event.
    pub(crate) fn loser(&self, event: &Event) -> Option<ServiceId> {
        let mut after = self.clone();
        after.apply(event);
        let owner = |frontend: &Frontend| (frontend.service, frontend.port);
        let lost = |(key, frontend): &(&FrontendKey, &Frontend)| {
            let after = after.frontends.get(key);
            after.is_some_and(|after| owner(after) != owner(frontend))
        };
        let loser = self.frontends.iter().find(lost);
        loser.map(|(_, frontend)| frontend.service)
    }

    /// Returns whether a client with this address is on this node.
    pub(crate) fn is_on_this_node(&self, client: IpAddr) -> bool {
        let own = addresses::NODE.has(client) && self.nodes.contains(&client);
        addresses::is_pod_of_this_node(client) || own
    }

    /// The backends of a frontend's service port that are of its family, usable or not.
    pub(crate) fn backends(&self, frontend: &Frontend) -> impl Iterator<Item = &Backend> + use<'_> {
        let is_ipv4 = frontend.is_ipv4;
        let all = &self.services[&frontend.service].ports[frontend.port].backends;
        all.iter()
            .filter(move |backend| backend.at.ip.is_ipv4() == is_ipv4)
    }

    /// The backends of a frontend's set, in their order, and whether they take new connections there: one
    /// that takes them in one set only is in no other.
    pub(crate) fn listed(&self, frontend: &Frontend, set: Policy) -> Vec<(&Backend, bool)> {
        let service = &self.services[&frontend.service];
        let selects_locally = service.selects_locally(&service.ports[frontend.port]);
        let all: Vec<_> = self.backends(frontend).collect();
        let takes = |backend: &Backend, set| backend.is_usable_in(set, &all);
        let is_elsewhere = |backend: &Backend| match set {
            Policy::Cluster => selects_locally && takes(backend, Policy::Local),
            Policy::Local => takes(backend, Policy::Cluster),
        };
        let listed = all.iter().filter(|backend| {
            let is_in = backend.is_in(set) && (takes(backend, set) || !is_elsewhere(backend));
            backend.is_listed() && is_in
        });
        listed
            .map(|backend| (*backend, takes(backend, set)))
            .collect()
    }

    /// Returns the addresses of the backends of a frontend's set, whether they take new connections or not.
    fn places(&self, frontend: &Frontend, set: Policy) -> Vec<Endpoint> {
        match self.split_of(frontend) {
            Some(split) => {
                let shares = self.shares(split, frontend.is_ipv4, set).of.into_iter();
                shares.filter_map(|(at, share)| share.map(|_| at)).collect()
            }
            None => {
                let listed = self.listed(frontend, set).into_iter();
                listed.map(|(backend, _)| backend.at).collect()
            }
        }
    }

    /// Returns the addresses of the backends of a frontend's set that take new connections, and whether some
    /// of these are refused.
    pub(crate) fn taking(&self, frontend: &Frontend, set: Policy) -> (Vec<Endpoint>, bool) {
        if let Some(split) = self.split_of(frontend) {
            let Shares { of, refused } = self.shares(split, frontend.is_ipv4, set);
            let taking = of
                .into_iter()
                .filter(|(_, share)| share.is_some_and(|share| share > 0));
            return (taking.map(|(at, _)| at).collect(), refused > 0);
        }
        let all: Vec<_> = self.backends(frontend).collect();
        let taking = all.iter().filter(|backend| backend.is_usable_in(set, &all));
        (taking.map(|backend| backend.at).collect(), false)
    }

    /// Returns whether the frontend's connections are shared out by a split.
    pub(crate) fn has_split(&self, frontend: &Frontend) -> bool {
        self.split_of(frontend).is_some()
    }

    /// Returns whether any backend would take new connections of the frontend, wherever it is.
    pub(crate) fn has_usable(&self, frontend: &Frontend) -> bool {
        match self.split_of(frontend) {
            Some(split) => {
                let parts = self.parts(split, frontend.is_ipv4);
                let mut parts = parts.iter().filter(|(weight, _)| *weight > 0);
                parts.any(|(_, behind)| behind.iter().any(Backend::is_usable))
            }
            None => self.backends(frontend).any(Backend::is_usable),
        }
    }

    /// Returns whether the backend is one of this node's.
    pub(crate) fn is_local(&self, member: Member) -> bool {
        let service = &self.services[&member.service];
        let port = &service.ports[member.port];
        let is_there = |backend: &Backend| backend.at == member.at && backend.local;
        match &port.split {
            Some(split) if !member.is_beside_split => {
                let parts = self.parts((service, port, split), member.at.ip.is_ipv4());
                let mut behind = parts.iter().flat_map(|(_, behind)| behind);
                behind.any(is_there)
            }
            _ => port.backends.iter().any(is_there),
        }
    }

    /// Returns whether the service would have a frontend in mode dsr if it were alone.
    pub(crate) fn has_dsr(&self, service: ServiceId) -> bool {
        self.dsr.contains(&service)
    }

    /// Returns the begin of the backend's membership in the port, if it has it.
    pub(crate) fn membership(&self, member: Member) -> Option<u64> {
        self.members.get(&member).copied()
    }

    fn put(&mut self, service: &Service) {
        let claimed: BTreeSet<Claim> = claims(service).collect();
        self.claims
            .retain(|(id, claim), _| *id != service.id || claimed.contains(claim));
        for claim in claimed {
            self.claims.entry((service.id, claim)).or_insert_with(|| {
                self.last += 1;
                self.last
            });
        }
        self.services.insert(service.id, service.clone());
    }

    fn remove(&mut self, id: ServiceId) {
        self.services.remove(&id);
        self.claims.retain(|(service, _), _| *service != id);
    }

    /// Computes the owner of each frontend, and the frontends' backends, from scratch.
    fn recompute(&mut self) {
        let mut candidates: BTreeMap<FrontendKey, Vec<(u64, Frontend)>> = BTreeMap::new();
        let mut dsr = BTreeSet::new();
        for service in self.services.values() {
            let mut own = self.frontends_of(service);
            // The service's own address is meant where one of its NodePorts coincides with it.
            own.sort_by_key(|(key, _, frontend)| (*key, frontend.kind == Kind::NodePort));
            own.dedup_by_key(|(key, ..)| *key);
            for (key, claim, frontend) in own {
                if frontend.is_dsr {
                    dsr.insert(service.id);
                }
                let age = self.claims[&(service.id, claim)];
                candidates.entry(key).or_default().push((age, frontend));
            }
        }
        self.dsr = dsr;
        let first = |claims: Vec<(u64, Frontend)>| {
            let order =
                |(age, frontend): &(u64, Frontend)| (frontend.kind != Kind::ClusterIp, *age);
            let first = claims.into_iter().min_by_key(order);
            first.map(|(_, frontend)| frontend)
        };
        self.frontends = candidates
            .into_iter()
            .filter_map(|(key, claims)| Some((key, first(claims)?)))
            .collect();
        self.renew_members();
    }

    fn frontends_of(&self, service: &Service) -> Vec<(FrontendKey, Claim, Frontend)> {
        let mut found = Vec::new();
        for (name, port) in service.ports.iter().enumerate() {
            let mut add = |kind, ip, number, this_node_only| {
                let key = (port.protocol, Endpoint { ip, port: number });
                let (policy, claim) = match kind {
                    Kind::ClusterIp => (service.internal_policy, Claim::Address(key)),
                    Kind::NodePort => (
                        service.external_policy,
                        Claim::NodePort(port.protocol, number),
                    ),
                    Kind::ExternalIp | Kind::LoadBalancerIp => {
                        (service.external_policy, Claim::Address(key))
                    }
                };
                let frontend = Frontend {
                    service: service.id,
                    port: name,
                    kind,
                    is_beside_split: port.split.as_ref().is_some_and(|split| !split.is_for(kind)),
                    is_ipv4: ip.is_ipv4(),
                    this_node_only,
                    is_dsr: service.dsr
                        && kind != Kind::ClusterIp
                        && policy == Policy::Cluster
                        && !this_node_only,
                    policy,
                };
                found.push((key, claim, frontend));
            };
            for (kind, ips) in [
                (Kind::ClusterIp, &service.cluster_ips),
                (Kind::ExternalIp, &service.external_ips),
                (Kind::LoadBalancerIp, &service.load_balancer_ips),
            ] {
                for ip in ips {
                    add(kind, *ip, port.port, false);
                }
            }
            if port.node_port == 0 {
                continue;
            }
            let nodes = self.nodes.iter().filter(|ip| service.has_family_of(**ip));
            for ip in nodes {
                let other = !addresses::NODE.has(*ip);
                if !other || service.external_policy == Policy::Cluster {
                    add(Kind::NodePort, *ip, port.node_port, other);
                }
            }
        }
        found
    }

    /// A port has the backends that its frontends use; a membership that ends and begins again is
    /// another one.
    fn renew_members(&mut self) {
        let mut used = BTreeSet::new();
        for frontend in self.frontends.values() {
            let mut sets = vec![frontend.set_for(false), frontend.set_for(true)];
            if frontend.is_dsr {
                sets.push(Policy::Local);
            }
            let places = sets.into_iter().flat_map(|set| self.places(frontend, set));
            used.extend(places.map(|at| frontend.member(at)));
        }
        self.members.retain(|member, _| used.contains(member));
        for member in used {
            self.members.entry(member).or_insert_with(|| {
                self.last += 1;
                self.last
            });
        }
    }
}

fn claims(service: &Service) -> impl Iterator<Item = Claim> {
    let Service {
        cluster_ips,
        external_ips,
        load_balancer_ips,
        ports,
        ..
    } = service;
    ports.iter().flat_map(move |port| {
        let ips = [cluster_ips, external_ips, load_balancer_ips];
        let own = ips.into_iter().flatten().map(|ip| {
            let at = Endpoint {
                ip: *ip,
                port: port.port,
            };
            Claim::Address((port.protocol, at))
        });
        let node_port = Some(port.node_port).filter(|number| *number > 0);
        own.chain(node_port.map(|number| Claim::NodePort(port.protocol, number)))
    })
}

/// Returns whether the weights of a port's usable backends of one family do not fit into a `u32` together.
fn overflows(service: &Service) -> bool {
    let factor = |port: &Port, backend: &Backend| {
        if backend.local {
            service.local_backend_weight(port)
        } else {
            1
        }
    };
    let sum = |port: &Port, is_ipv4, is_usable: fn(&Backend) -> bool| -> u64 {
        let usable = port.backends.iter().filter(|backend| is_usable(backend));
        let of_family = usable.filter(|backend| backend.at.ip.is_ipv4() == is_ipv4);
        let weights =
            of_family.map(|backend| u64::from(backend.weight) * u64::from(factor(port, backend)));
        weights.sum()
    };
    service.ports.iter().any(|port| {
        [true, false].into_iter().any(|is_ipv4| {
            [Backend::is_ready, Backend::is_serving]
                .into_iter()
                .any(|is_usable| sum(port, is_ipv4, is_usable) > u32::MAX.into())
        })
    })
}
