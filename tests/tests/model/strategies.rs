//! Strategies that make up operations: mostly what a node sees, and a little of everything else.

use proptest::{collection::vec, option::weighted, prelude::*, sample::select};

use super::{
    addresses::{
        BACKEND_IPS, BACKEND_PORTS, NODE_NAMES, NODE_PORTS, SERVICE_IPS, SERVICE_PORTS,
        is_pod_of_this_node, node_addresses,
    },
    cluster::{Backend, Endpoint, Policy, Port, Protocol, Service, State},
    nodes::Nodes,
    operations::{Change, Crowd, Operation, Progress, Tweak, Way, scopes_of, sorted},
    shapes::{bytes, datagram, mutations, shape},
    split::{Mode, Split, Target},
};

/// The operations of a case.
pub(crate) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let packet = prop_oneof![
        30 => Just(vec![]).boxed(),
        1 => mutations(1).boxed(),
    ];
    vec(
        prop_oneof![
            82 => (way(), shape(), packet)
                .prop_map(|(way, shape, mutations)| Operation::Packet(way, shape, mutations)),
            8 => (way(), shape(), datagram(Just(vec![])))
                .prop_map(|(way, shape, pieces)| Operation::Datagram(way, shape, pieces)),
            11 => other(),
        ],
        1..400,
    )
}

/// The operations of a case with more connections than find room.
pub(crate) fn crowded_operations() -> impl Strategy<Value = Vec<Operation>> {
    vec(
        prop_oneof![
            82 => (way(), shape())
                .prop_map(|(way, shape)| Operation::Packet(way, shape, vec![])),
            3 => crowd().prop_map(Operation::Crowd),
            11 => other(),
        ],
        1..400,
    )
}

fn crowd() -> impl Strategy<Value = Crowd> {
    let progress = select(vec![
        Progress::Begun,
        Progress::Answered,
        Progress::Assured,
        Progress::Assured,
        Progress::Assured,
        Progress::Assured,
    ]);
    let ends = (any::<u16>(), any::<u16>(), any::<u16>());
    (ends, 30..120u16, progress).prop_map(|((frontend, client, port), count, progress)| Crowd {
        frontend,
        client,
        port,
        count,
        progress,
    })
}

/// The operations of a case in which hardly a frame is what it should be.
pub(crate) fn mutated_operations() -> impl Strategy<Value = Vec<Operation>> {
    vec(
        prop_oneof![
            25 => (way(), shape())
                .prop_map(|(way, shape)| Operation::Packet(way, shape, vec![])),
            20 => (way(), shape(), mutations(1))
                .prop_map(|(way, shape, mutations)| Operation::Packet(way, shape, mutations)),
            20 => (way(), shape(), mutations(2))
                .prop_map(|(way, shape, mutations)| Operation::Packet(way, shape, mutations)),
            20 => (way(), shape(), mutations(6))
                .prop_map(|(way, shape, mutations)| Operation::Packet(way, shape, mutations)),
            8 => (way(), shape(), datagram(mutations(2)))
                .prop_map(|(way, shape, pieces)| Operation::Datagram(way, shape, pieces)),
            6 => bytes().prop_map(|(hook, bytes)| Operation::Bytes(hook, bytes)),
            6 => other(),
        ],
        1..400,
    )
}

fn other() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => change().prop_map(Operation::Event),
        4 => select(vec![4u32, 4, 11, 11, 25, 31, 61, 121, 211, 86_401]).prop_map(Operation::Pass),
        1 => Just(Operation::Reclaim),
    ]
}

fn way() -> impl Strategy<Value = Way> {
    let index = any::<u16>;
    prop_oneof![
        28 => (index(), index()).prop_map(|(frontend, client)| Way::ToFrontend { frontend, client }),
        16 => (index(), index()).prop_map(|(frontend, client)| Way::ToDsr { frontend, client }),
        25 => index().prop_map(|flow| Way::Request { flow }),
        25 => index().prop_map(|flow| Way::Reply { flow }),
        8 => (index(), prop_oneof![5 => 0..5u8, 3 => Just(5), 1 => Just(6)]).prop_map(|(flow, which)| Way::Elsewhere { flow, which }),
        5 => (any::<bool>(), index(), index()).prop_map(|(egress, source, destination)| {
            Way::Stray { egress, source, destination }
        }),
    ]
}

pub(crate) fn change() -> impl Strategy<Value = Change> {
    let index = any::<u16>;
    let services = || vec(service(), 0..3).prop_map(each_once);
    prop_oneof![
        4 => (service(), any::<bool>()).prop_map(|(service, update)| Change::Put { service, update }),
        1 => index().prop_map(|service| Change::Delete { service }),
        8 => (index(), tweak()).prop_map(|(service, tweak)| Change::Tweak { service, tweak }),
        1 => (any::<bool>(), services())
            .prop_map(|(other_node, services)| Change::NodePorts { other_node, services }),
        2 => nodes().prop_map(Change::Nodes),
        1 => (any::<bool>(), nodes(), any::<u8>(), services()).prop_map(
            |(other_node, nodes, kept, services)| Change::Resync { other_node, nodes, kept, services }
        ),
    ]
}

/// Some of the nodes, most of them with all their addresses.
fn nodes() -> impl Strategy<Value = Nodes> {
    let [a, b, c] = node_addresses().map(|lists| weighted(0.8, select(lists)));
    (a, b, c).prop_map(|(a, b, c)| {
        let lists = NODE_NAMES.into_iter().zip([a, b, c]);
        lists
            .filter_map(|(name, list)| Some((name, list?)))
            .collect()
    })
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
        2 => (index(), weighted(0.8, split())).prop_map(|(port, split)| Tweak::Split(port, split)),
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
        2 => Just(State::Serving),
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
    let [a, b, c, d] = NODE_NAMES.map(Some);
    let node = prop_oneof![
        6 => Just(b),
        3 => Just(c),
        1 => select(vec![a, d, None]),
    ];
    let rest = (weight(), state(), scopes);
    (place, node, rest).prop_map(|((ip, port), node, (weight, state, bits))| {
        let local = is_pod_of_this_node(ip);
        Backend {
            at: Endpoint { ip, port },
            weight,
            local,
            node,
            state,
            scopes: bits.map(|bits| scopes_of(bits, local)),
        }
    })
}

fn backends() -> impl Strategy<Value = Vec<Backend>> {
    vec(backend(), 0..8).prop_map(sorted)
}

fn port() -> impl Strategy<Value = Port> {
    let numbers = (select(&SERVICE_PORTS[..]), select(&NODE_PORTS[..]));
    let protocol = select(&Protocol::ALL[..]);
    let rest = (backends(), weighted(0.1, split()));
    (protocol, numbers, rest).prop_map(|(protocol, (port, node_port), (backends, split))| Port {
        protocol,
        port,
        node_port,
        backends,
        split,
    })
}

fn split() -> impl Strategy<Value = Split> {
    let mode = select(vec![Mode::Available, Mode::Strict, Mode::First]);
    let address = (select(&BACKEND_IPS[..]), select(&BACKEND_PORTS[..]));
    let target = prop_oneof![
        4 => Just(Target::Own),
        4 => (0..4u8, select(&SERVICE_PORTS[..])).prop_map(|(id, port)| Target::Service(id, port)),
        2 => address.prop_map(|(ip, port)| Target::Address(Endpoint { ip, port })),
        1 => Just(Target::Invalid),
    ];
    let weight = prop_oneof![8 => 0..5u32, 1 => 0..u32::MAX / 6];
    let rest = (any::<bool>(), vec((target, weight), 0..5));
    (mode, rest).prop_map(|(mode, (cluster_ips_only, parts))| Split {
        mode,
        cluster_ips_only,
        parts,
    })
}

fn service() -> impl Strategy<Value = Service> {
    let ips = || vec(select(&SERVICE_IPS[..]), 0..4);
    let ranges = prop_oneof![
        3 => Just(vec![]),
        1 => Just(vec![
            ([198, 51, 100, 5].into(), 32),
            ([10, 1, 0, 0].into(), 16),
            ([0x2001, 0xdb8, 0x51, 0, 0, 0, 0, 5].into(), 128),
            ([0xfd00, 1, 0, 0, 0, 0, 0, 0].into(), 31),
        ]),
        1 => Just(vec![([0xfd00, 1, 1, 0, 0, 0, 0, 0].into(), 64)]),
        1 => Just(vec![([0, 0, 0, 0].into(), 0), ([0; 8].into(), 0)]),
    ];
    let affinity = prop_oneof![4 => Just(0u32), 1 => Just(10)];
    let maglev = prop_oneof![2 => Just(false), 1 => Just(true)];
    let (dsr, masquerade) = (any::<bool>(), any::<bool>());
    (
        0..4u8,
        (ips(), ips(), ips()),
        ranges,
        (policy(), policy()),
        (affinity, maglev, dsr, masquerade),
        vec(port(), 1..4),
    )
        .prop_map(
            |(id, ips, source_ranges, policies, (affinity, maglev, dsr, masquerade), mut ports)| {
                let (mut cluster_ips, mut external_ips, mut load_balancer_ips) = ips;
                // One of each family is all that a service may have.
                for is_ipv4 in [true, false] {
                    let mut seen = false;
                    cluster_ips.retain(|ip| {
                        ip.is_ipv4() != is_ipv4 || !std::mem::replace(&mut seen, true)
                    });
                }
                let mut taken = Vec::new();
                for list in [&mut cluster_ips, &mut external_ips, &mut load_balancer_ips] {
                    list.retain(|ip| {
                        let new = !taken.contains(ip);
                        taken.push(*ip);
                        new
                    });
                }
                distinct(&mut ports);
                let mut service = Service {
                    id,
                    cluster_ips,
                    external_ips,
                    load_balancer_ips,
                    source_ranges,
                    external_policy: policies.0,
                    internal_policy: policies.1,
                    affinity,
                    maglev,
                    dsr,
                    masquerade,
                    ports,
                };
                service.without_what_splits_exclude();
                service.without_foreign_backends()
            },
        )
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
