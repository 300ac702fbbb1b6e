//! How operations are made up: mostly what a node sees, and a little of everything else.

use proptest::{collection::vec, prelude::*, sample::select};

use super::{
    addresses::{
        BACKEND_IPS, BACKEND_PORTS, NODE_PORTS, SERVICE_IPS, SERVICE_PORTS, is_pod_of_this_node,
    },
    cluster::{Backend, Endpoint, Policy, Port, Protocol, Service, State},
    operations::{Change, Operation, Shape, Tweak, Way, scopes_of, sorted},
    packet::{Damage, Flags},
};

/// The operations of a case.
pub fn operations() -> impl Strategy<Value = Vec<Operation>> {
    vec(operation(), 1..400)
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        90 => (way(), shape()).prop_map(|(way, shape)| Operation::Packet(way, shape)),
        8 => change().prop_map(Operation::Event),
        2 => select(vec![1u32, 11, 31, 121, 86_401]).prop_map(Operation::Pass),
        1 => Just(Operation::Reclaim),
    ]
}

fn way() -> impl Strategy<Value = Way> {
    let index = any::<u16>;
    prop_oneof![
        40 => (index(), index()).prop_map(|(frontend, client)| Way::ToFrontend { frontend, client }),
        25 => index().prop_map(|flow| Way::Request { flow }),
        25 => index().prop_map(|flow| Way::Reply { flow }),
        5 => (index(), 0..5u8).prop_map(|(flow, which)| Way::Elsewhere { flow, which }),
        5 => (any::<bool>(), index(), index()).prop_map(|(egress, source, destination)| {
            Way::Stray { egress, source, destination }
        }),
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    let flags = |syn, ack, fin, rst| Flags { syn, ack, fin, rst };
    let flags = prop_oneof![
        8 => Just(flags(true, false, false, false)),
        8 => Just(flags(false, true, false, false)),
        1 => Just(flags(true, true, false, false)),
        2 => Just(flags(false, true, true, false)),
        1 => Just(flags(false, false, false, true)),
        1 => any::<[bool; 4]>().prop_map(move |[syn, ack, fin, rst]| flags(syn, ack, fin, rst)),
    ];
    let payload = prop_oneof![
        6 => vec(any::<u8>(), 0..8),
        1 => vec(any::<u8>(), 8..200),
        1 => vec(select(vec![0u8, 0xff]), 0..8),
    ];
    let mostly_zero = |most: usize| prop_oneof![8 => Just(0), 1 => 1..=most];
    (
        any::<bool>(),
        flags,
        prop_oneof![4 => Just(true), 1 => Just(false)],
        mostly_zero(10),
        mostly_zero(10),
        // Of 1, forwarding would make an error in which nothing is seen of the choice.
        prop_oneof![4 => Just(64u8), 1 => 2u8..],
        any::<u16>(),
        payload,
        mostly_zero(18),
        prop_oneof![30 => Just(None), 1 => damage().prop_map(Some)],
    )
        .prop_map(
            |(
                udp,
                flags,
                checksum,
                ip_options,
                tcp_options,
                time_to_live,
                identification,
                payload,
                padding,
                damage,
            )| Shape {
                udp,
                flags,
                checksum,
                ip_options,
                tcp_options,
                time_to_live,
                identification,
                payload,
                padding,
                damage,
            },
        )
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        // The kernel's test run takes no IPv4 frame that lacks a whole IPv4 header.
        4 => (34..80usize).prop_map(Damage::Cut),
        2 => select(vec![0x2000u16, 0x2010, 0x0020, 0x1fff, 0x6000]).prop_map(Damage::Fragment),
        1 => select(vec![0u8, 1, 47, 50, 132, 136, 255]).prop_map(Damage::Protocol),
        1 => select(vec![0x0806u16, 0x86dd, 0x8100, 46]).prop_map(Damage::EtherType),
        1 => select(vec![0x65u8, 0x05, 0x40, 0x44, 0x35]).prop_map(Damage::FirstByte),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let index = any::<u16>;
    let services = || vec(service(), 0..3).prop_map(each_once);
    prop_oneof![
        4 => (service(), any::<bool>()).prop_map(|(service, update)| Change::Put { service, update }),
        1 => index().prop_map(|service| Change::Delete { service }),
        8 => (index(), tweak()).prop_map(|(service, tweak)| Change::Tweak { service, tweak }),
        1 => (any::<bool>(), services())
            .prop_map(|(other_node, services)| Change::NodePorts { other_node, services }),
        1 => (any::<bool>(), any::<u8>(), services()).prop_map(
            |(other_node, kept, services)| Change::Resync { other_node, kept, services }
        ),
    ]
}

fn tweak() -> impl Strategy<Value = Tweak> {
    let index = any::<u16>;
    prop_oneof![
        1 => (index(), weight()).prop_map(|(backend, weight)| Tweak::Weight(backend, weight)),
        1 => (index(), state()).prop_map(|(backend, state)| Tweak::State(backend, state)),
        1 => (index(), proptest::option::of(0..4u8)).prop_map(|(backend, bits)| {
            Tweak::Scopes(backend, bits)
        }),
        2 => index().prop_map(Tweak::RemoveBackend),
        2 => (index(), backend()).prop_map(|(port, backend)| Tweak::AddBackend(port, backend)),
        1 => policy().prop_map(Tweak::ExternalPolicy),
        1 => policy().prop_map(Tweak::InternalPolicy),
        1 => (index(), backends()).prop_map(|(port, backends)| Tweak::Exchange(port, backends)),
    ]
}

fn each_once(mut services: Vec<Service>) -> Vec<Service> {
    services.sort_by_key(|service| service.id);
    services.dedup_by_key(|service| service.id);
    services
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![3 => Just(Policy::Cluster), 1 => Just(Policy::Local)]
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![
        6 => Just(State::Ready),
        1 => Just(State::Terminating),
        1 => Just(State::NotReady),
    ]
}

fn weight() -> impl Strategy<Value = u32> {
    prop_oneof![
        12 => Just(1u32),
        4 => 0..4u32,
        1 => 0..u32::MAX / 6,
        1 => Just(u32::MAX),
    ]
}

fn backend() -> impl Strategy<Value = Backend> {
    let scopes = prop_oneof![7 => Just(None), 1 => (0..4u8).prop_map(Some)];
    let place = (select(&BACKEND_IPS[..]), select(&BACKEND_PORTS[..]));
    (place, weight(), state(), scopes).prop_map(|((ip, port), weight, state, bits)| {
        let local = is_pod_of_this_node(ip);
        Backend {
            at: Endpoint { ip, port },
            weight,
            local,
            state,
            scopes: bits.map(|bits| scopes_of(bits, local)),
        }
    })
}

fn backends() -> impl Strategy<Value = Vec<Backend>> {
    vec(backend(), 0..5).prop_map(sorted)
}

fn port() -> impl Strategy<Value = Port> {
    let numbers = (select(&SERVICE_PORTS[..]), select(&NODE_PORTS[..]));
    (any::<bool>(), numbers, backends()).prop_map(|(udp, (port, node_port), backends)| Port {
        protocol: if udp { Protocol::Udp } else { Protocol::Tcp },
        port,
        node_port,
        backends,
    })
}

fn service() -> impl Strategy<Value = Service> {
    let ips = || vec(select(&SERVICE_IPS[..]), 0..3);
    let ranges = prop_oneof![
        3 => Just(vec![]),
        1 => Just(vec![([198, 51, 100, 5].into(), 32), ([10, 1, 0, 0].into(), 16)]),
        1 => Just(vec![([0, 0, 0, 0].into(), 0)]),
    ];
    let affinity = prop_oneof![4 => Just(0u32), 1 => Just(10)];
    (
        0..4u8,
        (ips(), ips(), ips()),
        ranges,
        (policy(), policy()),
        affinity,
        vec(port(), 1..4),
    )
        .prop_map(|(id, ips, source_ranges, policies, affinity, mut ports)| {
            let (mut cluster_ips, mut external_ips, mut load_balancer_ips) = ips;
            // One of each family is all that a service may have.
            cluster_ips.truncate(1);
            let mut taken = Vec::new();
            for list in [&mut cluster_ips, &mut external_ips, &mut load_balancer_ips] {
                list.retain(|ip| {
                    let new = !taken.contains(ip);
                    taken.push(*ip);
                    new
                });
            }
            distinct(&mut ports);
            Service {
                id,
                cluster_ips,
                external_ips,
                load_balancer_ips,
                source_ranges,
                external_policy: policies.0,
                internal_policy: policies.1,
                affinity,
                ports,
            }
        })
}

/// Leaves out what two ports of a service may not share.
fn distinct(ports: &mut Vec<Port>) {
    let (mut numbers, mut node_ports) = (Vec::new(), vec![]);
    ports.retain_mut(|port| {
        let number = (port.protocol, port.port);
        if numbers.contains(&number) {
            return false;
        }
        numbers.push(number);
        let node_port = (port.protocol, port.node_port);
        if node_ports.contains(&node_port) {
            port.node_port = 0;
        }
        node_ports.push(node_port);
        true
    });
}
