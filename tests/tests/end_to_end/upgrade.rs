//! Agents of other versions that take over, and give back.
//!
//! `cargo xtask test` builds the agent of an earlier revision with the same layouts of state, and sets
//! `SHUNT_EARLIER_BIN` to its path.

use std::{collections::BTreeMap, env, fs, path::PathBuf, time::Duration};

use aya::maps::{Array, Map, MapData, PerCpuArray};
use serde_json::{Value, json};
use shunt_common::{Counter, registry::STATE_LAYOUT};
use shunt_skip::skip;
use shunt_tests::{Cgroup, Continuous, Namespace, PinDir, Transport, addresses, has_root};

use crate::{
    flows::Flows,
    host_world, pinned,
    service::Service,
    states::{Sockets, States},
    world::{REQUEST, World, binary, resync_with},
    xdp::{as_from_a_wire, has_ethtool, taken, uplink},
};

const SOON: Duration = Duration::from_secs(10);

/// Some tables of state that are laid out as they always were.
pub(crate) const KEPT: [&str; 4] = ["FRONTENDS_V4", "CELLS_V6", "BACKENDS_V4", "NODE_V6"];

/// The names of maps that versions without scratch pinned.
const SCRATCH: [&str; 3] = ["SEARCHES_V4", "ARRIVALS_V6", "LOOKUPS"];

/// Returns the agent of another version that this variable names; skips the test if there is none.
pub(crate) fn other_version(variable: &str) -> Option<PathBuf> {
    let path = env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        skip(&format!(
            "{variable} names no agent, which `cargo xtask test` builds"
        ));
    }
    path
}

/// Services over TCP and UDP, these with session affinity, each with all backends.
pub(crate) fn services(world: &World) -> [Service; 2] {
    [Transport::Tcp, Transport::Udp].map(|transport| {
        let service = Service::new(transport).dual_stack();
        ["pod-a", "pod-b", "pod-d"]
            .into_iter()
            .fold(service, |service, pod| {
                service
                    .backend(world.backend(pod))
                    .backend(world.backend_v6(pod))
            })
    })
}

/// The snapshot of these services; that over UDP is called otherwise and has session affinity.
pub(crate) fn snapshot([tcp, udp]: &[Service; 2]) -> String {
    let mut udp = udp.json();
    udp["id"]["name"] = "dns".into();
    udp["session_affinity_timeout"] = 600.into();
    let mut event: Value = serde_json::from_str(&resync_with(&[tcp.json(), udp])).unwrap();
    // Of both families: a version that takes over may have a source for SNAT where events name no address.
    let nodes = [addresses::NODE, addresses::NODE2].map(|node| [node, addresses::v6(node)]);
    event["node_ips"] = json!(nodes.concat());
    event.to_string()
}

/// Returns the value sizes and ids of pinned tables, by name.
pub(crate) fn tables(pins: &PinDir) -> BTreeMap<String, (u32, u32)> {
    let infos = pinned::infos(pins).into_iter();
    infos
        .map(|(name, info)| (name, (info.value_size(), info.id())))
        .collect()
}

pub(crate) fn layout(pins: &PinDir) -> [u64; 2] {
    let map = Map::Array(pinned::map(pins, "LAYOUT"));
    let layout: Array<MapData, [u64; 2]> = Array::try_from(map).unwrap();
    layout.get(&0, 0).unwrap()
}

fn counters(pins: &PinDir) -> PerCpuArray<MapData, u64> {
    PerCpuArray::try_from(Map::PerCpuArray(pinned::map(pins, "COUNTERS"))).unwrap()
}

/// The packets of clients that the programs counted.
fn requests(world: &World) -> u64 {
    let index = Counter::Request as u32;
    counters(&world.pins).get(&index, 0).unwrap().iter().sum()
}

/// The table of nftables that remembers the resets that a namespace sends and receives.
const RESETS: &str = "resets";

/// The namespaces that may send a reset of the traffic.
fn ends(world: &World) -> [(&'static str, &Namespace); 6] {
    let sandbox = &world.sandbox;
    let pod = |name: &'static str| (name, sandbox.pod(name).namespace());
    [
        ("outside", sandbox.outside()),
        ("node", sandbox.node()),
        pod("pod-a"),
        pod("pod-b"),
        pod("pod-c"),
        pod("pod-d"),
    ]
}

/// Has each end remember its resets: they show which end closed a connection that failed.
fn remember_resets(world: &World) {
    let chain = |hook: &str| {
        format!(
            "set {hook}s {{
                 typeof ip saddr . tcp sport . ip daddr . tcp dport
                 size 65535
                 flags dynamic
             }}
             chain {hook} {{
                 type filter hook {hook} priority -300
                 tcp flags & rst != 0 add @{hook}s {{ ip saddr . tcp sport . ip daddr . tcp dport }}
             }}"
        )
    };
    let (input, output) = (chain("input"), chain("output"));
    let rules = format!("table ip {RESETS} {{\n{input}\n{output}\n}}\n");
    for (_, end) in ends(world) {
        end.run_with_input("nft", &["-f", "-"], &rules).unwrap();
    }
}

/// Returns the resets that each end has sent and received.
fn resets(world: &World) -> String {
    let listed = |(name, end): (&str, &Namespace)| {
        let listed = end.run_with_input("nft", &["list", "table", "ip", RESETS], "");
        format!(
            "{name}: {}",
            listed.unwrap_or_else(|error| error.to_string())
        )
    };
    ends(world).map(listed).join("\n")
}

/// New connections all the time, of each kind.
pub(crate) fn traffic(world: &World, [tcp, udp]: &[Service; 2]) -> Vec<Continuous> {
    let (pod, outside) = (world.client_pod(), world.sandbox.outside());
    remember_resets(world);
    [
        (pod, tcp.cluster_ip()),
        (outside, tcp.node_port()),
        (pod, udp.cluster_ip()),
        (outside, udp.node_port()),
    ]
    .map(|(from, target)| Continuous::start(from, target, REQUEST))
    .into()
}

/// Ends the traffic, of which no connection may have failed.
pub(crate) fn end(world: &World, traffic: Vec<Continuous>) {
    let all: Vec<_> = traffic
        .into_iter()
        .map(|client| client.stop().unwrap())
        .collect();
    let mut failed = Vec::new();
    for (client, samples) in all.iter().enumerate() {
        let count = samples.len();
        for (number, sample) in samples.iter().enumerate() {
            if let Err(error) = &sample.outcome {
                let took = sample.ended - sample.started;
                let since = sample.started - samples[0].started;
                failed.push(format!(
                    "client {client}: {error:?} after {took:.1?}, {since:.1?} after the first, {} of {count}",
                    number + 1
                ));
            }
        }
    }
    let counters = || world.shunt(&["status", "-o", "json"]).json()["counters"].clone();
    assert!(
        failed.is_empty(),
        "no connection may fail, but {failed:#?}, {}\n{}\n{}",
        counters(),
        resets(world),
        world.agent.log()
    );
}

pub(crate) fn some(traffic: &[Continuous]) {
    for client in traffic {
        client.wait_for(20, SOON).unwrap();
    }
}

#[test]
fn the_earlier_version_hands_over() {
    let Some(earlier) = other_version("SHUNT_EARLIER_BIN") else {
        return;
    };
    let Some(mut world) = World::of(&earlier, &[]) else {
        return;
    };
    let services = services(&world);
    world.apply(&snapshot(&services));
    let mut flows = Flows::open(&world.sandbox, &services);
    let traffic = traffic(&world, &services);
    some(&traffic);
    let (stamp, before) = (layout(&world.pins), tables(&world.pins));
    let packets = requests(&world);
    let mut world = world.killed().start(&[]);
    flows.check();
    let after = tables(&world.pins);
    for name in KEPT {
        assert_eq!(before[name], after[name], "{name} is the same table");
    }
    assert_eq!(layout(&world.pins), stamp, "state is laid out as it was");
    assert!(requests(&world) >= packets, "counters go on");
    let writes = world.writes(&snapshot(&services));
    assert_eq!(writes, 0, "all was right already: {}", world.agent.log());
    flows.check();
    flows.check_listed(&world);
    some(&traffic);

    // And the same layout after that.
    let world = world.killed().start(&[]);
    flows.check();
    some(&traffic);
    end(&world, traffic);
    flows.check_listed(&world);
}

#[test]
fn scratch_of_another_size_is_nobodys_business() {
    let Some(mut world) = World::new() else {
        return;
    };
    let services = services(&world);
    world.apply(&snapshot(&services));
    let mut flows = Flows::open(&world.sandbox, &services);
    let traffic = traffic(&world, &services);
    some(&traffic);
    // As an agent leaves them that pins all of its maps.
    let pinned: Vec<PathBuf> = SCRATCH
        .iter()
        .map(|name| world.pins.path().join("maps").join(name))
        .collect();
    for path in &pinned {
        Array::<_, [u64; 31]>::create(1, 0)
            .unwrap()
            .pin(path)
            .unwrap();
    }
    let mut world = world.killed().start(&[]);
    flows.check();
    for path in &pinned {
        assert!(!path.exists(), "{} is nobody's any more", path.display());
    }
    assert_eq!(world.writes(&snapshot(&services)), 0);
    some(&traffic);
    end(&world, traffic);
    flows.check_listed(&world);
}

#[test]
fn counters_that_do_not_fit_are_copied() {
    let Some(mut world) = World::new() else {
        return;
    };
    let services = services(&world);
    world.apply(&snapshot(&services));
    world.ask_from_pod(services[0].cluster_ip(), 20);
    let packets = requests(&world);
    assert!(packets > 0);
    let unattended = world.killed();
    // An earlier version had fewer counters.
    let path = unattended.pins.path().join("maps/COUNTERS");
    let all = counters(&unattended.pins);
    let mut fewer = PerCpuArray::<_, u64>::create(3, 0).unwrap();
    for index in 0..3 {
        fewer.set(index, all.get(&index, 0).unwrap(), 0).unwrap();
    }
    fs::remove_file(&path).unwrap();
    fewer.pin(&path).unwrap();
    let mut world = unattended.start(&[]);
    // The last packets of a connection may come after its client has gone.
    let copied = requests(&world);
    assert!((packets..packets + 20).contains(&copied), "{copied}");
    world.apply(&snapshot(&services));
    world.ask_from_pod(services[0].cluster_ip(), 20);
    let later = requests(&world);
    assert!(later >= packets + 20, "{later}");
    let table = tables(&world.pins)["COUNTERS"];
    let world = world.killed().start(&[]);
    assert!(requests(&world) >= later);
    assert_eq!(tables(&world.pins)["COUNTERS"], table, "they fit now");
}

/// Writes this version to `LAYOUT`; its other word stays.
fn stamp(pins: &PinDir, version: u64) {
    let map = Map::Array(pinned::map(pins, "LAYOUT"));
    let mut layout: Array<MapData, [u64; 2]> = Array::try_from(map).unwrap();
    let [_, fingerprint] = layout.get(&0, 0).unwrap();
    layout.set(0, [version, fingerprint], 0).unwrap();
}

#[test]
fn tables_of_another_layout_are_refused_untouched() {
    const FINGERPRINT: u64 = 0x0123_4567_89ab_cdef;

    let Some(mut world) = World::new() else {
        return;
    };
    let services = services(&world);
    world.apply(&snapshot(&services));
    let mut flows = Flows::open(&world.sandbox, &services);
    let traffic = traffic(&world, &services);
    some(&traffic);
    let unattended = world.killed();
    let path = unattended.pins.path();
    // As left by an agent that pinned every map of its object.
    let map = Map::Array(pinned::map(&unattended.pins, "LAYOUT"));
    let mut found: Array<MapData, [u64; 2]> = Array::try_from(map).unwrap();
    found.set(0, [STATE_LAYOUT, FINGERPRINT], 0).unwrap();
    let before = (
        tables(&unattended.pins),
        pinned::links(&unattended.pins),
        pinned::programs(&unattended.pins),
    );
    let advice = format!("`shunt cleanup --pin-dir {}`", path.display());
    for version in [STATE_LAYOUT - 1, STATE_LAYOUT + 1] {
        stamp(&unattended.pins, version);
        let refused = unattended.try_start_of(&binary(), &["--max-conntrack", "100000"]);
        let refused = refused.unwrap_err().to_string();
        let difference = format!("have layout {version}, not {STATE_LAYOUT}");
        assert!(
            refused.contains(&difference) && refused.contains(&advice),
            "{refused}"
        );
        let after = (
            tables(&unattended.pins),
            pinned::links(&unattended.pins),
            pinned::programs(&unattended.pins),
        );
        assert_eq!(after, before, "nothing is touched");
        assert_eq!(layout(&unattended.pins), [version, FINGERPRINT]);
        flows.check();
        some(&traffic);
    }
    stamp(&unattended.pins, STATE_LAYOUT);
    let world = unattended.start(&[]);
    assert_eq!(layout(&world.pins), [STATE_LAYOUT, FINGERPRINT]);
    assert_eq!(tables(&world.pins), before.0);
    flows.check();
    some(&traffic);
    end(&world, traffic);
    flows.check_listed(&world);
}

/// Returns the flags of agents with programs at every hook: drivers', cgroup's and interfaces'.
fn everywhere<'a>(cgroup: &'a Cgroup, conntrack: &'a str) -> Vec<&'a str> {
    let xdp = ["--xdp=native", "--xdp-interface=eth*"];
    let size = ["--max-conntrack", conntrack];
    // On a busy machine, a start takes longer than an unanswered datagram is remembered, and opening the
    // others longer than a connection that was reset.
    let patient = [
        "--conntrack-udp-timeout=30m",
        "--conntrack-tcp-timeout-closed=5m",
        "--conntrack-tcp-timeout-time-wait=5m",
    ];
    [
        &xdp[..],
        &size,
        &patient,
        &host_world::flags("host", cgroup),
    ]
    .concat()
}

#[test]
fn connections_in_every_state_go_on_over_an_upgrade_and_back() {
    let Some(earlier) = other_version("SHUNT_EARLIER_BIN") else {
        return;
    };
    if !has_root() || !has_ethtool() {
        return;
    }
    let cgroup = Cgroup::new().unwrap();
    let Some(mut world) = World::of(&earlier, &everywhere(&cgroup, "500000")) else {
        return;
    };
    for far_end in [world.sandbox.node2(), world.sandbox.outside()] {
        as_from_a_wire(far_end, "eth0");
    }
    let services = services(&world);
    world.apply(&snapshot(&services));
    let mut flows = Flows::open(&world.sandbox, &services);
    let mut sockets = Sockets::open(&cgroup, &world, &services);
    let traffic = traffic(&world, &services);
    some(&traffic);
    // The traffic does not fill tables of these sizes, so no connection of the test gives way to it.
    // Forward with tables of the same size and of another one, and back with both.
    for (round, (agent, conntrack)) in [
        (binary(), "500000"),
        (earlier.clone(), "500000"),
        (binary(), "600000"),
        (earlier, "550000"),
        (binary(), "550000"),
    ]
    .iter()
    .enumerate()
    {
        let states = States::open(&world, &services, round as u16);
        let by_drivers = taken(&world.agent);
        world = world
            .killed()
            .start_of(agent, &everywhere(&cgroup, conntrack));
        states.check(&world);
        flows.check();
        sockets.check();
        some(&traffic);
        assert_eq!(world.writes(&snapshot(&services)), 0, "all was right");
        states.finish(&world);
        flows.check();
        flows.check_listed(&world);
        sockets.check();
        assert_eq!(uplink(&world.agent, "eth0").0, "native");
        assert!(taken(&world.agent) > by_drivers, "round {round}");
    }
    end(&world, traffic);
}
