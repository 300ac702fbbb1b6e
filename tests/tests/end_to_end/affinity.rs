//! Session affinity of real clients, and what an earlier version remembered of them.

use aya::maps::{HashMap, Map, MapData};
use shunt_common::registry::FamilyMaps;
use shunt_tests::{PinDir, Transport};

use crate::{
    pinned,
    service::Service,
    world::{World, resync_with},
};

/// Client, nobody, service port; of an earlier version client, and the frontend's address, port and
/// protocol.
type Key = [u8; 12];
type Entry = [u8; 12];

fn table(pins: &PinDir) -> HashMap<MapData, Key, Entry> {
    let map = pinned::map(pins, FamilyMaps::V4.affinity.pin);
    HashMap::try_from(Map::LruHashMap(map)).unwrap()
}

/// A world with a service of three backends that has session affinity.
fn affine(world: &World) -> (Service, String) {
    let pods = ["pod-a", "pod-b", "pod-d"].into_iter();
    let service = pods.fold(Service::new(Transport::Tcp), |service, pod| {
        service.backend(world.backend(pod))
    });
    let mut json = service.json();
    json["session_affinity_timeout"] = 600.into();
    (service, resync_with(&[json]))
}

#[test]
fn a_client_has_one_backend_at_all_addresses_of_a_service() {
    let Some(mut world) = World::new() else {
        return;
    };
    let (service, snapshot) = affine(&world);
    world.apply(&snapshot);
    let targets = [
        service.cluster_ip(),
        service.node_port(),
        service.external_ip(),
    ];
    let used = targets.map(|target| world.ask_from_pod(target, 5).backends());
    assert_eq!(used[0].len(), 1, "{used:?}");
    assert!(used.iter().all(|one| *one == used[0]), "{used:?}");
}

#[test]
fn a_client_that_an_earlier_version_remembered_by_frontend_chooses_anew_and_stays() {
    let Some(mut world) = World::new() else {
        return;
    };
    let (service, snapshot) = affine(&world);
    world.apply(&snapshot);
    world.ask_from_pod(service.cluster_ip(), 1);
    let unattended = world.killed();
    let mut known = table(&unattended.pins);
    let entries: Vec<(Key, Entry)> = known.iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(entries.len(), 1, "one client of one service port");
    for (key, entry) in entries {
        known.remove(&key).unwrap();
        let mut earlier = key;
        earlier[4..].copy_from_slice(&[10, 96, 0, 10, 0, 80, 6, 0]);
        known.insert(earlier, entry, 0).unwrap();
    }
    let mut world = unattended.start(&[]);
    let chosen = world.ask_from_pod(service.cluster_ip(), 1).backends();
    let keys: Vec<Key> = known.keys().collect::<Result<_, _>>().unwrap();
    let is_of_port = |key: &&Key| key[4..8] == [0; 4];
    assert_eq!(keys.iter().filter(is_of_port).count(), 1, "{keys:?}");
    for _ in 0..2 {
        for target in [service.cluster_ip(), service.node_port()] {
            // Others would be chosen in all but one of 3^10 runs.
            assert_eq!(world.ask_from_pod(target, 10).backends(), chosen);
        }
        world.apply(&snapshot);
    }
}
