//! From a question to its answer.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use crate::{
    lookup::{
        answer::Answer,
        behind::endpoints,
        membership::memberships,
        ports::{first_of, of_families, own_frontends, port_of},
        query::{Query, Subject},
        target::{FrontendView, ServiceTarget, Target, TargetKind, Who},
    },
    protocol::Protocol,
    render::{
        frontend::{Frontend, FrontendKey, FrontendKind},
        renderer::Renderer,
        state::State,
    },
    service::{Service, ServicePort},
    service_id::ServiceId,
    workload::WorkloadKind,
};

impl Renderer {
    /// Returns the targets and endpoints behind the subject of `query`, as far as events have named them. Takes
    /// microseconds for some fifty endpoints.
    pub fn lookup(&self, query: &Query) -> Answer {
        let state = &self.state;
        let mut targets = match &query.subject {
            Subject::Address(address) => at_address(state, *address, query),
            Subject::Service(id) => of_service(state, id, query),
        };
        // Stable: within one kind, ports and claims stay in their order.
        targets.sort_by_key(|target| (!target.in_use, target.kind));
        Answer {
            endpoints: endpoints(state, query, &targets),
            member_of: memberships(state, query),
            query: query.clone(),
            targets,
        }
    }
}

/// Everyone that an address belongs to, or that wants it. At each port and protocol one has it: the
/// first of these lists.
fn at_address(state: &State, address: IpAddr, query: &Query) -> Vec<Target> {
    let mut targets = frontends(state, address, query);
    let node = node(state, address);
    if node.is_some() && query.is_about(Protocol::Tcp) {
        targets.extend(health_checks(state, query));
    }
    targets.extend(workloads(state, address, query));
    targets.extend(node);
    if targets.is_empty() {
        targets = undefined_port(state, address);
    }
    let mut taken = Taken::default();
    for target in &mut targets {
        target.in_use = taken.take(target, address, query);
    }
    targets
}

/// The ports that earlier targets have already.
#[derive(Default)]
struct Taken {
    ports: BTreeSet<(u16, Protocol)>,
    /// A target has all that is left.
    rest: bool,
}

impl Taken {
    /// Returns whether the target has anything of what is asked for that no target before it has.
    fn take(&mut self, target: &Target, address: IpAddr, query: &Query) -> bool {
        let wanted: Vec<_> = match &target.who {
            Who::Service(ServiceTarget { frontend, .. }) => {
                let keys = frontend.iter().map(|frontend| frontend.key);
                keys.map(|key| (key.port, key.protocol)).collect()
            }
            Who::HealthCheck { port, .. } => vec![(port.get(), Protocol::Tcp)],
            Who::Workload(workload) if target.kind == TargetKind::HostPort => {
                let ports = workload.host_ports.iter();
                let here = ports.filter(|port| port.ip == address);
                here.map(|port| (port.port.get(), port.protocol)).collect()
            }
            Who::Workload(workload) if target.kind == TargetKind::ExternalWorkload => {
                let ports = workload.ports.iter();
                ports.map(|port| (port.port.get(), port.protocol)).collect()
            }
            // Theirs is every port.
            Who::Workload(_) | Who::Node { .. } | Who::UndefinedPort { .. } => {
                let is_free = !self.rest && (query.port.is_none() || self.ports.is_empty());
                self.rest |= is_free;
                return is_free;
            }
        };
        let asked = wanted
            .into_iter()
            .filter(|(port, protocol)| query.covers(*port, *protocol));
        // All of them are its, not only the first.
        asked.filter(|port| self.ports.insert(*port)).count() > 0
    }
}

/// The services that claim frontends at an address, sorted by frontend, the holder of each first.
fn frontends(state: &State, address: IpAddr, query: &Query) -> Vec<Target> {
    let target = |(key, id): (FrontendKey, &Arc<ServiceId>)| {
        let entry = state.services.get(id)?;
        let frontend = entry.frontend(key)?;
        let port = port_of(&entry.service, frontend)?;
        Some(Target {
            kind: frontend.kind.into(),
            in_use: false,
            who: Who::Service(service_target(
                &entry.service,
                port,
                Some((key, frontend)),
                first_of(frontend),
            )),
        })
    };
    let Some(port) = query.port else {
        let claims = state.claims.all_at(address);
        let claims = claims.filter(|(key, _)| query.is_about(key.protocol));
        return claims.filter_map(target).collect();
    };
    let protocols = [Protocol::Sctp, Protocol::Tcp, Protocol::Udp].into_iter();
    let keys = protocols
        .filter(|protocol| query.is_about(*protocol))
        .map(|protocol| FrontendKey {
            address,
            port: port.get(),
            protocol,
        });
    keys.flat_map(|key| state.claims.of(key).map(move |(_, id)| (key, id)))
        .filter_map(target)
        .collect()
}

fn service_target(
    service: &Service,
    port: &ServicePort,
    frontend: Option<(FrontendKey, &Frontend)>,
    first: Option<usize>,
) -> ServiceTarget {
    ServiceTarget {
        service: Arc::clone(&service.id),
        port_name: Arc::clone(&port.name),
        port: port.port,
        protocol: port.protocol,
        node_port: port.node_port,
        cluster_ips: service.cluster_ips.clone(),
        traffic_policy: service.traffic_policy,
        internal_traffic_policy: service.internal_traffic_policy,
        affinity_timeout: service.session_affinity_timeout,
        opaque_ports: service.opaque_ports.clone(),
        profile: service.profile.clone(),
        hostnames: service.hostnames.clone(),
        split: port.split.clone(),
        first,
        frontend: frontend.map(|(key, frontend)| FrontendView {
            key,
            kind: frontend.kind,
            policy: frontend.policy,
            clients: frontend.clients,
            refusal: frontend.refusal,
            selection: frontend.backends.selection(),
            forwarding: frontend.forwarding,
            sources: Arc::clone(&frontend.sources),
        }),
    }
}

/// The health checks of services that nodes answer for.
fn health_checks(state: &State, query: &Query) -> impl Iterator<Item = Target> {
    let checks = state.health_checks.at(query.port);
    checks.map(|(port, service)| Target {
        kind: TargetKind::HealthCheckNodePort,
        in_use: false,
        who: Who::HealthCheck {
            service: Arc::clone(service),
            port,
        },
    })
}

/// The workloads at an address: pods, then those at an address of their node's, then others. Each list
/// is in the order in which they have it.
fn workloads(state: &State, address: IpAddr, query: &Query) -> Vec<Target> {
    let target = |kind, who| Target {
        kind,
        in_use: false,
        who: Who::Workload(Arc::clone(who)),
    };
    let own = state.residents.at_own(address, query.port, query.protocol);
    let (mut pods, mut external) = (Vec::new(), Vec::new());
    for workload in own {
        match workload.id.kind {
            WorkloadKind::Pod => pods.push(target(TargetKind::Pod, workload)),
            WorkloadKind::ExternalWorkload => {
                external.push(target(TargetKind::ExternalWorkload, workload));
            }
        }
    }
    let hosted = state
        .residents
        .at_host_port(address, query.port, query.protocol);
    pods.extend(hosted.map(|workload| target(TargetKind::HostPort, workload)));
    pods.extend(external);
    pods
}

/// The node whose address it is.
fn node(state: &State, address: IpAddr) -> Option<Target> {
    let name = state.atlas.name_of(address).cloned();
    let own = state.nodes.own().contains(&address)
        || state.options.node_ips.contains(&address)
        || state.options.host_addresses.contains(&address);
    let nodes = &state.nodes;
    let is_nodes = own || nodes.all().contains(&address) || nodes.left_out().contains(&address);
    (name.is_some() || is_nodes).then_some(Target {
        kind: TargetKind::Node,
        in_use: false,
        who: Who::Node { name, own },
    })
}

/// The services whose own address it is, at whatever port.
fn undefined_port(state: &State, address: IpAddr) -> Vec<Target> {
    let mut services: Vec<(FrontendKind, &Arc<ServiceId>)> = Vec::new();
    for (key, id) in state.claims.all_at(address) {
        let entry = state.services.get(id);
        let kind = entry.and_then(|entry| Some(entry.frontend(key)?.kind));
        if let Some(kind) = kind
            && kind != FrontendKind::NodePort
            && !services.iter().any(|(_, known)| *known == id)
        {
            services.push((kind, id));
        }
    }
    services.sort_by_key(|(kind, _)| TargetKind::from(*kind));
    let target = |(kind, id): (FrontendKind, &Arc<ServiceId>)| Target {
        kind: TargetKind::UndefinedPort,
        in_use: false,
        who: Who::UndefinedPort {
            service: Arc::clone(id),
            kind: Some(kind),
        },
    };
    services.into_iter().map(target).collect()
}

/// The ports of a service that was asked for by its name, each with the frontend at the first of its
/// own addresses.
fn of_service(state: &State, id: &Arc<ServiceId>, query: &Query) -> Vec<Target> {
    let Some(entry) = state.services.get(id) else {
        return Vec::new();
    };
    let service = &entry.service;
    let ports = service.ports.iter();
    let asked = ports.filter(|port| query.covers(port.port, port.protocol));
    let targets: Vec<_> = asked
        .map(|port| {
            let frontend = own_frontends(state, service, port).next();
            let kind = frontend.map(|(_, frontend)| frontend.kind.into());
            // A client may use either family: of the backends that are chosen, the first in the split.
            let families = of_families(state, service, port);
            let first = families.filter_map(|(_, one)| first_of(one)).min();
            Target {
                kind: kind.unwrap_or(TargetKind::Service),
                in_use: true,
                who: Who::Service(service_target(service, port, frontend, first)),
            }
        })
        .collect();
    if !targets.is_empty() {
        return targets;
    }
    vec![Target {
        kind: TargetKind::UndefinedPort,
        in_use: true,
        who: Who::UndefinedPort {
            service: Arc::clone(&service.id),
            kind: None,
        },
    }]
}
