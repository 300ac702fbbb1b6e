//! Invariants of every sequence of events.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU16,
    sync::Arc,
};

use proptest::{collection::vec, option, prelude::*, sample, sample::subsequence};
use shunt_model::{
    Balancing, Endpoint, EndpointState, Footprint, Forwarding, Frontend, FrontendKey, FrontendKind,
    Hints, NodeAddresses, NodePortUpdate, Protocol, RenderOptions, Renderer, RendererEvent, Scopes,
    Selection, Service, ServiceId, ServicePort, Snapshot, Split, SplitBackend, SplitFrontends,
    SplitMode, SplitTarget, TrafficPolicy, render,
};

use crate::world::World;

/// Services are named 0 to 3.
const SERVICES: u8 = 4;

fn id(service: u8) -> ServiceId {
    ServiceId::new("default", &service.to_string())
}

fn node_ips() -> impl Strategy<Value = BTreeSet<IpAddr>> {
    let all: Vec<IpAddr> = [
        "192.168.16.10",
        "192.168.16.20",
        "2001:db8:16::10",
        "10.96.0.1",
    ]
    .map(|address| address.parse().unwrap())
    .into();
    subsequence(all, 0..=4).prop_map(BTreeSet::from_iter)
}

fn endpoints() -> impl Strategy<Value = Vec<Endpoint>> {
    let endpoint =
        (1..4u8, 0..3u32, any::<bool>(), 0..4u8).prop_map(|(host, weight, local, state)| {
            Endpoint {
                ip: Ipv4Addr::new(10, 1, 1, host).into(),
                port: 8080,
                weight,
                local,
                state: [
                    EndpointState::Ready,
                    EndpointState::Ready,
                    EndpointState::Terminating,
                    EndpointState::Terminating,
                ][usize::from(state)],
                serving: state == 3,
                scopes: Scopes {
                    cluster: true,
                    local,
                },
                hints: Hints::default(),
                node: None,
                zone: None,
            }
        });
    vec(endpoint, 0..4).prop_map(|mut list| {
        list.sort_by_key(|endpoint| endpoint.ip);
        list.dedup_by_key(|endpoint| endpoint.ip);
        list
    })
}

fn split() -> impl Strategy<Value = Split> {
    let mode = sample::select(vec![
        SplitMode::Available,
        SplitMode::Strict,
        SplitMode::First,
    ]);
    let frontends = prop_oneof![Just(SplitFrontends::All), Just(SplitFrontends::ClusterIp)];
    let target = prop_oneof![
        6 => (0..SERVICES, 80..82u16)
            .prop_map(|(service, port)| SplitTarget::Service { id: Arc::new(id(service)), port }),
        1 => (1..4u8).prop_map(|host| SplitTarget::Address {
            ip: Ipv4Addr::new(10, 1, 1, host).into(),
            port: NonZeroU16::new(8080).unwrap(),
        }),
        1 => Just(SplitTarget::Invalid { reason: "nothing".into() }),
    ];
    let backend = (target, 0..4u32).prop_map(|(target, weight)| SplitBackend { target, weight });
    (mode, frontends, vec(backend, 0..4)).prop_map(|(mode, frontends, backends)| Split {
        mode,
        frontends,
        backends,
    })
}

/// A service. If `apart`, no two services claim the same; otherwise they often do.
fn service(apart: bool) -> impl Strategy<Value = Service> {
    let policy = || prop_oneof![Just(TrafficPolicy::Cluster), Just(TrafficPolicy::Local)];
    let addresses = subsequence(vec![1u8, 2, 3], 0..=3);
    let split = option::weighted(0.3, split());
    let ports = vec((0..2u16, option::of(0..3u16), endpoints(), split), 0..3);
    let selections = [None, Some(Selection::Weighted), Some(Selection::Maglev)];
    let selection = sample::select(selections.to_vec());
    let forwardings = [None, Some(Forwarding::Snat), Some(Forwarding::Dsr)];
    let forwarding = sample::select(forwardings.to_vec());
    let masquerade = sample::select(vec![None, Some(false), Some(true)]);
    let policies = (policy(), policy(), selection, (forwarding, masquerade));
    (0..SERVICES, addresses, policies, 0..2u32, ports).prop_map(
        move |(
            number,
            hosts,
            (traffic_policy, internal_traffic_policy, selection, (forwarding, masquerade)),
            session_affinity_timeout,
            ports,
        )| {
            let subnet = if apart { 1 + number } else { 0 };
            let mut addresses = hosts
                .into_iter()
                .map(|host| Ipv4Addr::new(10, 96, subnet, host).into());
            let mut ports: Vec<ServicePort> = ports
                .into_iter()
                .map(|(port, node_port, endpoints, split)| ServicePort {
                    name: port.to_string().into(),
                    protocol: Protocol::Tcp,
                    port: 80 + port,
                    node_port: node_port.and_then(|node_port| {
                        // Once in a while the port of an address: a NodePort against a ClusterIP.
                        let own = if apart {
                            30000 + 100 * u16::from(number)
                        } else {
                            80
                        };
                        NonZeroU16::new(own + node_port)
                    }),
                    endpoints,
                    split: split.map(Arc::new),
                })
                .collect();
            ports.sort_by(|a, b| a.name.cmp(&b.name));
            ports.dedup_by(|a, b| a.name == b.name || a.node_port == b.node_port);
            Service {
                id: Arc::new(id(number)),
                cluster_ips: addresses.next().into_iter().collect(),
                external_ips: addresses.next().into_iter().collect(),
                load_balancer_ips: addresses.collect(),
                load_balancer_source_ranges: Vec::new(),
                traffic_policy,
                internal_traffic_policy,
                session_affinity_timeout,
                selection,
                forwarding,
                masquerade,
                opaque_ports: None,
                profile: None,
                hostnames: None,
                seniority: None,
                ports,
            }
        },
    )
}

/// Services, each identity once.
fn services(apart: bool) -> impl Strategy<Value = Vec<Service>> {
    vec(service(apart), 0..4).prop_map(|list| {
        let mut seen = BTreeSet::new();
        list.into_iter()
            .filter(|service| seen.insert(Arc::clone(&service.id)))
            .collect()
    })
}

fn event(apart: bool) -> impl Strategy<Value = RendererEvent> {
    prop_oneof![
        1 => (node_ips(), services(apart)).prop_map(|(node_ips, services)| {
            RendererEvent::Resync(Snapshot { node_ips, services, ..Snapshot::default() })
        }),
        3 => service(apart).prop_map(RendererEvent::AddService),
        3 => service(apart).prop_map(RendererEvent::UpdateService),
        2 => (0..SERVICES).prop_map(|service| RendererEvent::DeleteService(id(service))),
        2 => (node_ips(), services(apart)).prop_map(|(node_ips, services)| {
            RendererEvent::UpdateNodePortServices(NodePortUpdate { node_ips, services })
        }),
    ]
}

fn history(apart: bool) -> impl Strategy<Value = Vec<RendererEvent>> {
    vec(event(apart), 1..20)
}

/// The state that follows from the events, derived from them alone.
#[derive(Default)]
struct Told {
    node_ips: BTreeSet<IpAddr>,
    services: BTreeMap<Arc<ServiceId>, Arc<Service>>,
    /// The claims of services, in the order of the events.
    claims: Vec<(Arc<ServiceId>, Claim)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    Address(IpAddr, u16),
    NodePort(u16),
}

impl Told {
    fn hear(&mut self, event: &RendererEvent) {
        match event.clone() {
            RendererEvent::Resync(Snapshot {
                node_ips, services, ..
            }) => {
                self.node_ips = node_ips;
                let named: BTreeSet<_> = services
                    .iter()
                    .map(|service| Arc::clone(&service.id))
                    .collect();
                self.services.retain(|id, _| named.contains(id));
                services
                    .into_iter()
                    .for_each(|service| self.hear_service(service));
            }
            RendererEvent::AddService(service) | RendererEvent::UpdateService(service) => {
                self.hear_service(service);
            }
            RendererEvent::DeleteService(id) => drop(self.services.remove(&id)),
            RendererEvent::UpdateNodePortServices(NodePortUpdate { node_ips, services }) => {
                self.node_ips = node_ips;
                services
                    .into_iter()
                    .for_each(|service| self.hear_service(service));
            }
            RendererEvent::UpdateLocalFrontendIfs(_)
            | RendererEvent::UpdateLocalBackendIfs(_)
            | RendererEvent::UpdateServiceCidrs(_)
            | RendererEvent::UpdateNodes(_)
            | RendererEvent::UpdateWorkloads(_) => {}
        }
        let services = &self.services;
        self.claims.retain(|(id, claim)| {
            services
                .get(id)
                .is_some_and(|service| claims(service).contains(claim))
        });
    }

    fn hear_service(&mut self, service: Service) {
        for claim in claims(&service) {
            let claim = (Arc::clone(&service.id), claim);
            if !self.claims.contains(&claim) {
                self.claims.push(claim);
            }
        }
        let id = Arc::clone(&service.id);
        self.services.insert(id, Arc::new(service));
    }

    /// The frontends that have to be there: each from the service whose ClusterIP it is, or that claimed it first.
    fn expected(&self) -> BTreeMap<FrontendKey, Frontend> {
        let mut expected = BTreeMap::<FrontendKey, ((bool, usize), Frontend)>::new();
        for service in self.services.values() {
            for (key, frontend) in self.rendered(service) {
                let claim = match frontend.kind {
                    FrontendKind::NodePort => Claim::NodePort(key.port),
                    _ => Claim::Address(key.address, key.port),
                };
                let claim = (Arc::clone(&service.id), claim);
                let age = self
                    .claims
                    .iter()
                    .position(|found| *found == claim)
                    .unwrap();
                let order = (frontend.kind != FrontendKind::ClusterIp, age);
                if expected.get(&key).is_none_or(|(first, _)| order < *first) {
                    expected.insert(key, (order, frontend));
                }
            }
        }
        expected
            .into_iter()
            .map(|(key, (_, frontend))| (key, frontend))
            .collect()
    }

    /// Returns the frontends of one of the services by itself, beside the others.
    fn rendered(&self, service: &Service) -> Vec<(FrontendKey, Frontend)> {
        let nodes = NodeAddresses::new(self.node_ips.clone(), &options());
        let others = |id: &ServiceId| self.services.get(id);
        render(service, &others, &nodes, &Balancing::default()).unwrap()
    }

    fn snapshot(&self) -> RendererEvent {
        let services = self.services.values().map(|service| (**service).clone());
        let services = services.collect();
        RendererEvent::Resync(Snapshot {
            node_ips: self.node_ips.clone(),
            services,
            ..Snapshot::default()
        })
    }
}

fn claims(service: &Service) -> Vec<Claim> {
    let mut found = Vec::new();
    for port in &service.ports {
        found.extend(
            service
                .addresses()
                .map(|address| Claim::Address(address, port.port)),
        );
        found.extend(port.node_port.map(|port| Claim::NodePort(port.get())));
    }
    found
}

fn options() -> RenderOptions {
    RenderOptions {
        node_ips: ["192.168.16.10".parse().unwrap()].into(),
        ..RenderOptions::default()
    }
}

fn frontends(renderer: &Renderer) -> BTreeMap<FrontendKey, Frontend> {
    renderer
        .frontends()
        .map(|(key, frontend)| (key, frontend.clone()))
        .collect()
}

/// Sends all events to a world. It checks by itself that the changes add up.
fn tell(history: &[RendererEvent]) -> (World, Told) {
    let (mut world, mut told) = (World::with_options(options()), Told::default());
    let empty = RendererEvent::Resync(Snapshot::default());
    for event in [&empty].into_iter().chain(history) {
        world.apply(event.clone()).unwrap();
        told.hear(event);
    }
    (world, told)
}

proptest! {
    #[test]
    fn after_any_events_the_state_is_that_of_one_resync(history in history(true)) {
        let (world, told) = tell(&history);
        let mut fresh = World::with_options(options());
        fresh.apply(told.snapshot()).unwrap();
        prop_assert_eq!(world.frontends(), fresh.frontends());
        prop_assert_eq!(world.conflicts(), fresh.conflicts());
    }

    #[test]
    fn every_frontend_belongs_to_its_cluster_ip_or_its_oldest_claim(history in history(false)) {
        let (world, told) = tell(&history);
        prop_assert_eq!(frontends(&world.renderer), told.expected());
    }

    #[test]
    fn a_resync_that_says_nothing_new_changes_nothing(history in history(false)) {
        let (mut world, told) = tell(&history);
        prop_assert_eq!(world.apply(told.snapshot()).unwrap().counts(), (0, 0, 0));
        prop_assert_eq!(frontends(&world.renderer), told.expected());
    }

    #[test]
    fn events_that_do_not_meet_lead_to_the_same_in_either_order(
        history in history(false),
        one in event(false),
        other in event(false),
        afterwards in history(false),
    ) {
        let (mut first, _) = tell(&history);
        let (mut second, _) = tell(&history);
        let footprint = |event: &RendererEvent| {
            Footprint::of(event, &first.renderer.plan(event.clone()).unwrap())
        };
        if footprint(&one).meets(&footprint(&other)) {
            return Ok(());
        }
        for event in [&one, &other] {
            first.apply(event.clone()).unwrap();
        }
        for event in [&other, &one] {
            second.apply(event.clone()).unwrap();
        }
        for event in [None].into_iter().chain(afterwards.iter().map(Some)) {
            for world in [&mut first, &mut second] {
                event.map(|event| world.apply(event.clone()).unwrap());
            }
            prop_assert_eq!(first.frontends(), second.frontends());
            prop_assert_eq!(first.conflicts(), second.conflicts());
        }
    }

    #[test]
    fn every_claim_is_either_served_or_reported_as_a_conflict(history in history(false)) {
        let (world, told) = tell(&history);
        let conflicts: BTreeSet<_> =
            world.renderer.conflicts().map(|conflict| (conflict.key, conflict.waiting)).collect();
        for service in told.services.values() {
            for (key, frontend) in told.rendered(service) {
                let served = world.renderer.frontend(key) == Some(&frontend);
                let waits = conflicts.contains(&(key, Arc::clone(&service.id)));
                prop_assert!(served != waits, "{} of {}: served {}, waits {}", key, service.id, served, waits);
            }
        }
    }
}
