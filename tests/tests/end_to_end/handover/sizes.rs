//! Larger tables take the place of pinned ones while packets go on.

use std::collections::BTreeMap;

use aya::maps::{HashMap, Map, MapData};
use serde_json::{Value, json};
use shunt_common::{
    AffinityKey, FragmentEntry, FragmentKey, V4, V6,
    registry::{self, FamilyMaps, Kind, Size},
};
use shunt_tests::{PinDir, Transport, addresses, by_length};

use super::{dying_after, interrupted};
use crate::{
    flows::Flows,
    pinned,
    service::Service,
    upgrade::{end, services, snapshot, some, traffic},
    world::{Unattended, World, binary},
};

/// A flag, what it sizes, and two sizes.
struct Flag {
    name: &'static str,
    size: Size,
    before: &'static str,
    after: &'static str,
}

const fn flag(name: &'static str, size: Size, before: &'static str, after: &'static str) -> Flag {
    Flag {
        name,
        size,
        before,
        after,
    }
}

/// Every flag but that of connections.
const FLAGS: [Flag; 7] = [
    flag("--max-frontends", Size::Frontends, "64", "200"),
    flag("--max-slots", Size::Slots, "1024", "9000"),
    flag("--max-backends", Size::Backends, "256", "5000"),
    flag("--max-affinity", Size::Affinity, "1000", "9000"),
    flag("--max-source-ranges", Size::SourceRanges, "50", "70"),
    flag("--max-fragments", Size::Fragments, "1000", "1200"),
    flag("--max-services", Size::Services, "30", "5000"),
];

/// All of them, and that of connections.
const LARGER: [&str; 16] = [
    "--max-conntrack",
    "600000",
    "--max-frontends",
    "200",
    "--max-slots",
    "9000",
    "--max-backends",
    "5000",
    "--max-affinity",
    "90000",
    "--max-source-ranges",
    "70000",
    "--max-fragments",
    "9000",
    "--max-services",
    "20000",
];

/// A datagram of several fragments.
const LONG: usize = 4000;

/// The flags, of which the first so many have the larger size.
fn sizes(larger: usize) -> Vec<&'static str> {
    let sizes = FLAGS.iter().enumerate();
    let sizes = sizes.map(|(place, flag)| {
        let size = if place < larger {
            flag.after
        } else {
            flag.before
        };
        [flag.name, size]
    });
    sizes.collect::<Vec<_>>().concat()
}

/// The ids and the room of the pinned tables, by name.
fn rooms(pins: &PinDir) -> BTreeMap<String, (u32, u32)> {
    let infos = pinned::infos(pins).into_iter();
    infos
        .map(|(name, info)| (name, (info.id(), info.max_entries())))
        .collect()
}

/// Returns the programs' entries in a table.
fn remembered<const K: usize, const V: usize>(
    pins: &PinDir,
    map: registry::Map,
) -> BTreeMap<[u8; K], [u8; V]> {
    let data = Map::LruHashMap(pinned::map(pins, map.pin));
    let table: HashMap<MapData, [u8; K], [u8; V]> = HashMap::try_from(data).unwrap();
    table.iter().collect::<Result<_, _>>().unwrap()
}

/// The backends of clients, by client and service port, of both families.
fn clients(pins: &PinDir) -> [BTreeMap<Vec<u8>, Vec<u8>>; 2] {
    // A backend's index comes first.
    let backends = |key: &[u8], entry: &[u8; 12]| (key.to_vec(), entry[..4].to_vec());
    let v4 = remembered::<{ size_of::<AffinityKey<V4>>() }, 12>(pins, FamilyMaps::V4.affinity);
    let v6 = remembered::<{ size_of::<AffinityKey<V6>>() }, 12>(pins, FamilyMaps::V6.affinity);
    [
        v4.iter().map(|(key, entry)| backends(key, entry)).collect(),
        v6.iter().map(|(key, entry)| backends(key, entry)).collect(),
    ]
}

/// The fragmented datagrams of IPv4.
fn fragmented(pins: &PinDir) -> Vec<[u8; size_of::<FragmentKey<V4>>()]> {
    let table = remembered::<_, { size_of::<FragmentEntry<V4>>() }>(pins, FamilyMaps::V4.fragments);
    table.into_keys().collect()
}

/// Clients with session affinity, and their fragments.
struct Clients(Vec<Vec<u8>>, [BTreeMap<Vec<u8>, Vec<u8>>; 2]);

impl Clients {
    fn ask(world: &World, [_, udp]: &[Service; 2]) -> Self {
        for target in [udp.cluster_ip(), udp.cluster_ip_v6()] {
            let asked = world.client_pod().enter(|| target.ask(LONG));
            asked.unwrap();
        }
        let fragments = fragmented(&world.pins);
        assert!(!fragments.is_empty(), "the datagrams were long");
        let clients = clients(&world.pins);
        assert!(clients.iter().all(|family| !family.is_empty()));
        Self(fragments.iter().map(|key| key.to_vec()).collect(), clients)
    }

    /// All are still remembered.
    fn check(&self, pins: &PinDir) {
        let Self(fragments, known) = self;
        let now = fragmented(pins);
        for key in fragments {
            assert!(now.iter().any(|now| now[..] == key[..]), "{key:?}");
        }
        for (known, now) in known.iter().zip(clients(pins)) {
            for (client, backend) in known {
                assert_eq!(
                    now.get(client),
                    Some(backend),
                    "{client:?} keeps its backend"
                );
            }
        }
    }
}

/// The services' snapshot; one has source ranges.
fn ranged(services: &[Service; 2]) -> String {
    let mut event: Value = serde_json::from_str(&snapshot(services)).unwrap();
    let service = &mut event["services"][0];
    service["load_balancer_ips"] = json!(["203.0.113.9", "2001:db8::9"]);
    service["load_balancer_source_ranges"] = json!(["10.1.1.0/24", "2001:db8:1::/64"]);
    event.to_string()
}

/// Of each pinned table of this size, which is state, the room.
fn rooms_of(pins: &PinDir, size: Size) -> Vec<(&'static str, u32)> {
    let rooms = rooms(pins);
    let maps = registry::maps().filter(|map| map.kind == Kind::State && map.size == size);
    maps.map(|map| (map.pin, rooms[map.pin].1)).collect()
}

fn assert_rooms(pins: &PinDir, flag: &Flag, size: &str) {
    let one_more = u32::from(flag.size == Size::Services);
    let size = size.parse::<u32>().unwrap() + one_more;
    let rooms = rooms_of(pins, flag.size);
    assert!(!rooms.is_empty());
    for (table, room) in rooms {
        assert_eq!(room, size, "{} sizes {table}", flag.name);
    }
}

#[test]
fn each_size_takes_effect_at_the_next_start_under_traffic() {
    let Some(mut world) = World::with_flags(&sizes(0)) else {
        return;
    };
    let services = services(&world);
    world.apply(&ranged(&services));
    let mut flows = Flows::open(&world.sandbox, &services);
    let traffic = traffic(&world, &services);
    some(&traffic);
    for (place, flag) in FLAGS.iter().enumerate() {
        assert_rooms(&world.pins, flag, flag.before);
        let clients = Clients::ask(&world, &services);
        let before = rooms(&world.pins);
        world = world.killed().start(&sizes(place + 1));
        flows.check();
        clients.check(&world.pins);
        some(&traffic);
        assert_rooms(&world.pins, flag, flag.after);
        let after = rooms(&world.pins);
        assert!(before.keys().eq(after.keys()), "{after:?}");
        for (table, (id, room)) in &before {
            let is_same = *room == after[table].1;
            assert_eq!(*id == after[table].0, is_same, "{table} for {}", flag.name);
        }
        let writes = world.writes(&ranged(&services));
        assert_eq!(writes, 0, "{}: all has been copied", flag.name);
        flows.check();
        flows.check_listed(&world);
    }
    // There is nothing to be done any more.
    let before = rooms(&world.pins);
    let world = world.killed().start(&sizes(FLAGS.len()));
    assert_eq!(rooms(&world.pins), before);
    flows.check();
    some(&traffic);
    end(&world, traffic);
}

/// As many services, each with a frontend of each family.
fn crowd(services: &[Service; 2], count: u8) -> String {
    let mut event: Value = serde_json::from_str(&snapshot(services)).unwrap();
    let all = event["services"].as_array_mut().unwrap();
    for number in 0..count {
        let address = [10, 96, 1, number].into();
        all.push(json!({
            "id": { "namespace": "default", "name": format!("crowd-{number}") },
            "cluster_ips": [address, addresses::v6(address)],
            "ports": { "main": { "protocol": "TCP", "port": 80 } },
            "backends": { "main": [] },
        }));
    }
    event.to_string()
}

#[test]
fn what_a_table_has_no_room_for_finds_room_in_a_larger_one() {
    let Some(mut world) = World::new() else {
        return;
    };
    let services = services(&world);
    world.apply(&snapshot(&services));
    let mut flows = Flows::open(&world.sandbox, &services);
    // There is room for 64: the first ones of the namespace have it.
    world.apply(&crowd(&services, 100));
    flows.check();
    let log = world.agent.log();
    let words = " does not fit and is left out: ";
    let advice = "the next start with a larger --max-frontends makes room";
    assert!(log.contains(words) && log.contains(advice), "{log}");
    let mut world = world.killed().start(&["--max-frontends", "150"]);
    flows.check();
    world.apply(&crowd(&services, 100));
    flows.check();
    // Beyond the old room.
    let new = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    let mut last = new.json();
    last["id"]["name"] = "last".into();
    last["cluster_ips"] = json!(["10.96.2.1"]);
    last["external_ips"] = json!([]);
    last["ports"]["main"]["node_port"] = 30099.into();
    world.apply(&json!({ "event": "AddService", "service": last }).to_string());
    let target = new.cluster_ip().to("10.96.2.1".parse().unwrap());
    world.ask_from_pod(target, 20);
}

#[test]
fn a_smaller_size_waits_for_a_cleanup() {
    let Some(mut world) = World::new() else {
        return;
    };
    let services = services(&world);
    world.apply(&snapshot(&services));
    let mut flows = Flows::open(&world.sandbox, &services);
    let before = rooms(&world.pins);
    let world = world
        .killed()
        .start(&["--max-frontends", "32", "--max-affinity", "10"]);
    flows.check();
    assert_eq!(rooms(&world.pins), before);
    let log = world.agent.log();
    for kept in ["64 frontends", "65536 affinities"] {
        let kept = format!("IPv6: the pinned tables keep their room for {kept}");
        assert!(log.contains(&kept), "{log}");
    }
}

#[test]
fn a_start_with_larger_sizes_that_ends_early_is_begun_again() {
    let steps = [
        FamilyMaps::V4.cells.pin,
        "egress",
        "move",
        "remake",
        registry::SERVICES.pin,
        "copy",
        "replace",
        FamilyMaps::V4.affinity.pin,
    ];
    for step in steps.into_iter().take(by_length(3, 8)) {
        interrupted(&binary(), &LARGER, step, &[(&binary(), &LARGER)]);
    }
}

/// An agent that is to have larger tables dies after this step.
fn dies(unattended: &Unattended, flags: &[&str], step: &str) {
    let dying = dying_after(step);
    let died = unattended.try_start_of(dying.path(), flags);
    assert!(died.is_err(), "it dies after {step}");
}

#[test]
fn sizes_may_change_again_before_hooks_have_the_same_programs() {
    let Some(mut world) = World::with_flags(&sizes(0)) else {
        return;
    };
    let services = services(&world);
    world.apply(&snapshot(&services));
    let mut flows = Flows::open(&world.sandbox, &services);
    let before = Clients::ask(&world, &services);
    let unattended = world.killed();
    dies(&unattended, &sizes(FLAGS.len()), "egress");
    dies(&unattended, &["--max-affinity", "20000"], "move");
    flows.check();
    // The smaller one of those is not to be had any more.
    let world = unattended.start(&sizes(0));
    flows.check();
    before.check(&world.pins);
    let rooms = rooms(&world.pins);
    assert_eq!(rooms[FamilyMaps::V4.affinity.pin].1, 20_000);
    assert!(
        rooms.keys().all(|name| !name.ends_with("-new")),
        "{rooms:?}"
    );
    flows.check_listed(&world);
}
