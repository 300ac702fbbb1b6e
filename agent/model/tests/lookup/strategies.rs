//! Random events about few addresses, so that they meet.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU16,
    sync::Arc,
};

use proptest::{
    collection::vec,
    option,
    prelude::*,
    sample::{select, subsequence},
};
use shunt_model::{
    ClusterNodes, Endpoint, EndpointState, Hints, HostPort, NodePortUpdate, Phase, Protocol, Query,
    RendererEvent, Scopes, Service, ServiceId, ServicePort, Snapshot, Split, SplitBackend,
    SplitFrontends, SplitMode, SplitTarget, TrafficPolicy, Workload, WorkloadId, WorkloadKind,
    WorkloadPort, WorkloadUpdate,
};

use crate::world::Change;

/// Services are named 0 to 2, and pods, too.
const NAMES: u8 = 3;

fn id(name: u8) -> ServiceId {
    ServiceId::new("default", &name.to_string())
}

fn workload_id(name: u8) -> WorkloadId {
    WorkloadId {
        kind: if name == 0 {
            WorkloadKind::ExternalWorkload
        } else {
            WorkloadKind::Pod
        },
        namespace: "default".into(),
        name: name.to_string().into(),
    }
}

const fn node(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 168, 16, host))
}

const fn endpoint_ip(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 1, 1, host))
}

fn endpoints() -> impl Strategy<Value = Vec<Endpoint>> {
    let endpoint = (1..5u8, 0..3u32, any::<bool>(), 0..4u8);
    let endpoint = endpoint.prop_map(|(host, weight, local, state)| Endpoint {
        ip: endpoint_ip(host),
        port: 80,
        weight,
        local,
        state: [
            EndpointState::Ready,
            EndpointState::Ready,
            EndpointState::Terminating,
            EndpointState::NotReady,
        ][usize::from(state)],
        serving: weight > 0,
        scopes: Scopes::default_of(local),
        hints: Hints::default(),
        node: None,
        zone: None,
    });
    vec(endpoint, 0..4).prop_map(|mut list| {
        list.sort_by_key(|endpoint| endpoint.ip);
        list.dedup_by_key(|endpoint| endpoint.ip);
        list
    })
}

/// A split among services' endpoints and single addresses.
fn split() -> impl Strategy<Value = Split> {
    let modes = vec![SplitMode::Available, SplitMode::Strict, SplitMode::First];
    let frontends = vec![SplitFrontends::All, SplitFrontends::ClusterIp];
    let target = prop_oneof![
        4 => (0..NAMES, 80..82u16).prop_map(|(name, port)| SplitTarget::Service {
            id: Arc::new(id(name)),
            port,
        }),
        2 => (1..5u8).prop_map(|host| SplitTarget::Address {
            ip: endpoint_ip(host),
            port: NonZeroU16::new(80).unwrap(),
        }),
        1 => Just(SplitTarget::Invalid { reason: "not permitted".into() }),
    ];
    let backend = (target, 0..3u32).prop_map(|(target, weight)| SplitBackend { target, weight });
    let parts = (select(modes), select(frontends), vec(backend, 0..4));
    parts.prop_map(|(mode, frontends, backends)| Split {
        mode,
        frontends,
        backends,
    })
}

/// A service; several claim the same, at times at a node's or an endpoint's address.
fn service() -> impl Strategy<Value = Service> {
    let policy = prop_oneof![Just(TrafficPolicy::Cluster), Just(TrafficPolicy::Local)];
    let addresses = vec![
        Ipv4Addr::new(10, 96, 0, 1).into(),
        Ipv4Addr::new(10, 96, 0, 2).into(),
        node(10),
        endpoint_ip(1),
    ];
    let split = option::weighted(0.4, split());
    let ports = vec(
        (any::<bool>(), option::of(0..2u16), endpoints(), split),
        0..3,
    );
    let parts = (0..NAMES, subsequence(addresses, 0..=3), policy, ports);
    parts.prop_map(|(name, addresses, traffic_policy, ports)| {
        let mut addresses = addresses.into_iter();
        let ports = ports.into_iter().enumerate();
        let mut ports: Vec<_> = ports
            .map(
                |(index, (is_udp, node_port, endpoints, split))| ServicePort {
                    name: index.to_string().into(),
                    protocol: if is_udp { Protocol::Udp } else { Protocol::Tcp },
                    port: 80 + u16::from(index > 1),
                    node_port: node_port.and_then(|port| NonZeroU16::new(80 + port)),
                    endpoints,
                    split: split.map(Arc::new),
                },
            )
            .collect();
        ports.dedup_by_key(|port| (port.port, port.protocol));
        ports.dedup_by_key(|port| (port.node_port, port.protocol));
        Service {
            id: Arc::new(id(name)),
            cluster_ips: addresses.next().into_iter().collect(),
            external_ips: addresses.next().into_iter().collect(),
            load_balancer_ips: addresses.collect(),
            load_balancer_source_ranges: Vec::new(),
            traffic_policy,
            internal_traffic_policy: TrafficPolicy::Cluster,
            session_affinity_timeout: 0,
            selection: None,
            forwarding: None,
            masquerade: None,
            opaque_ports: None,
            profile: None,
            hostnames: None,
            seniority: None,
            ports,
        }
    })
}

fn services() -> impl Strategy<Value = Vec<Service>> {
    vec(service(), 0..3).prop_map(|list| {
        let mut seen = BTreeSet::new();
        list.into_iter()
            .filter(|service| seen.insert(Arc::clone(&service.id)))
            .collect()
    })
}

fn workload() -> impl Strategy<Value = Arc<Workload>> {
    let ips = vec![endpoint_ip(1), endpoint_ip(2), node(20)];
    let phase = prop_oneof![Just(Phase::Running), Just(Phase::Terminating)];
    let parts = (0..NAMES, subsequence(ips, 0..=2), any::<bool>(), phase);
    parts.prop_map(|(name, ips, is_at_host, phase)| {
        let port = NonZeroU16::new(80).unwrap();
        let protocol = Protocol::Tcp;
        let host_port = HostPort {
            ip: node(10),
            port,
            protocol,
        };
        Arc::new(Workload {
            id: Arc::new(workload_id(name)),
            ips: ips.into(),
            ports: [WorkloadPort {
                name: "".into(),
                port,
                protocol,
            }]
            .into(),
            host_ports: is_at_host.then_some(host_port).into_iter().collect(),
            node: None,
            phase,
            ready: None,
            owner: None,
            opaque_ports: None,
            policy_opaque_ports: Box::default(),
            mesh: None,
        })
    })
}

fn workloads() -> impl Strategy<Value = Vec<Arc<Workload>>> {
    vec(workload(), 0..3).prop_map(|list| {
        let mut seen = BTreeSet::new();
        list.into_iter()
            .filter(|workload| seen.insert(Arc::clone(&workload.id)))
            .collect()
    })
}

fn node_ips() -> impl Strategy<Value = BTreeSet<IpAddr>> {
    subsequence(vec![node(10), node(20)], 0..=2).prop_map(BTreeSet::from_iter)
}

fn nodes() -> impl Strategy<Value = ClusterNodes> {
    node_ips().prop_map(|ips| {
        let named = ips.into_iter().map(|ip| (ip.to_string().into(), vec![ip]));
        ClusterNodes(named.collect())
    })
}

fn snapshot() -> impl Strategy<Value = RendererEvent> {
    let parts = (node_ips(), services(), nodes(), workloads());
    parts.prop_map(|(node_ips, services, nodes, workloads)| {
        RendererEvent::Resync(Snapshot {
            node_ips,
            services,
            nodes,
            workloads,
            ..Snapshot::default()
        })
    })
}

fn event() -> impl Strategy<Value = RendererEvent> {
    prop_oneof![
        1 => snapshot(),
        6 => service().prop_map(RendererEvent::UpdateService),
        2 => (0..NAMES).prop_map(|name| RendererEvent::DeleteService(id(name))),
        1 => (node_ips(), services()).prop_map(|(node_ips, services)| {
            RendererEvent::UpdateNodePortServices(NodePortUpdate { node_ips, services })
        }),
        1 => nodes().prop_map(RendererEvent::UpdateNodes),
        2 => workloads().prop_map(|workloads| RendererEvent::UpdateWorkloads(WorkloadUpdate {
            workloads,
            gone: Vec::new(),
        })),
        1 => (0..NAMES).prop_map(|name| RendererEvent::UpdateWorkloads(WorkloadUpdate {
            workloads: Vec::new(),
            gone: vec![workload_id(name)],
        })),
    ]
}

/// Addresses of this host; some are also a node's or an endpoint's.
fn host_addresses() -> impl Strategy<Value = BTreeSet<IpAddr>> {
    let addresses = vec![node(10), node(20), endpoint_ip(1), endpoint_ip(3)];
    subsequence(addresses, 0..=4).prop_map(BTreeSet::from_iter)
}

/// Events and changes of the host's addresses, the first of which is a snapshot.
pub(crate) fn history() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        9 => event().prop_map(Change::Event),
        1 => host_addresses().prop_map(Change::HostAddresses),
    ];
    (snapshot(), vec(change, 0..25)).prop_map(|(first, mut rest)| {
        rest.insert(0, Change::Event(first));
        rest
    })
}

/// Questions about every address and service that events may be about.
pub(crate) fn queries() -> Vec<Query> {
    let addresses = [
        Ipv4Addr::new(10, 96, 0, 1).into(),
        Ipv4Addr::new(10, 96, 0, 2).into(),
        node(10),
        node(20),
        endpoint_ip(1),
        endpoint_ip(2),
        endpoint_ip(3),
    ];
    let mut queries = Vec::new();
    for port in [None, NonZeroU16::new(80), NonZeroU16::new(81)] {
        for protocol in [None, Some(Protocol::Tcp), Some(Protocol::Udp)] {
            let by_address = addresses.map(|address| Query::address(address, port, protocol));
            queries.extend(by_address);
            let names = 0..NAMES;
            queries.extend(names.map(|name| Query::service(Arc::new(id(name)), port, protocol)));
        }
    }
    queries
}
