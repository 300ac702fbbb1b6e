//! Agents that are killed at any instant.
//!
//! `SHUNT_KILLS` sets the number, `SHUNT_SEED` makes a run again.

use std::{
    collections::BTreeMap,
    env,
    net::Ipv4Addr,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use shunt_tests::{Transport, by_length};

use crate::{
    pinned::{Key, Tables},
    service::Service,
    world::{REQUEST, World, resync_with},
};

/// Number of times that an agent is killed, by default.
const KILLS: u64 = 30;
const MANY_KILLS: u64 = 300;

/// The longest time from the first event to the kill: the agent takes about as long for all.
const LONGEST: u64 = 12_000;

/// Number of events that an agent gets before it is killed.
const EVENTS: usize = 40;

/// Expected content of the tables for the changing services: the backends of each frontend.
type View = BTreeMap<Key, Vec<(Ipv4Addr, u16)>>;

/// Services by their ports, each with the last bytes of its backends' addresses.
type Services = BTreeMap<u16, Vec<u8>>;

/// A generator of numbers (Marsaglia's xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap())
}

/// A service with a ClusterIP and an ExternalIP.
fn json(port: u16, backends: &[u8]) -> Value {
    let backends: Vec<_> = backends
        .iter()
        .map(|last| json!({ "ip": format!("10.1.1.{last}"), "port": 8080, "local": true, "weight": 1 + last % 3 }))
        .collect();
    json!({
        "id": { "namespace": "default", "name": format!("s{port}") },
        "cluster_ips": ["10.96.1.1"],
        "external_ips": ["203.0.113.9"],
        "ports": { "main": { "protocol": "TCP", "port": port } },
        "backends": { "main": backends },
    })
}

fn view(services: &Services) -> View {
    let mut view = View::new();
    for (port, backends) in services {
        let backends: Vec<_> = backends
            .iter()
            .map(|last| (Ipv4Addr::new(10, 1, 1, *last), 8080))
            .collect();
        for [a, b, c, d] in [[10, 96, 1, 1], [203, 0, 113, 9]] {
            let [high, low] = port.to_be_bytes();
            view.insert([a, b, c, d, high, low, 6, 0], backends.clone());
        }
    }
    view
}

/// Changes one of the services; returns the event for that.
fn change(services: &mut Services, random: &mut Random) -> String {
    let port = 1000 + random.below(4) as u16;
    if random.below(5) == 0 {
        services.remove(&port);
        return json!({
            "event": "DeleteService",
            "id": { "namespace": "default", "name": format!("s{port}") },
        })
        .to_string();
    }
    let backends: Vec<u8> = (10..30).filter(|_| random.below(3) == 0).collect();
    let event = json!({ "event": "UpdateService", "service": json(port, &backends) });
    services.insert(port, backends);
    event.to_string()
}

#[test]
fn an_agent_may_be_killed_at_any_instant() {
    let Some(mut world) = World::new() else {
        return;
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = setting("SHUNT_SEED").unwrap_or(now.as_nanos() as u64) | 1;
    println!("SHUNT_SEED={seed}");
    let mut random = Random(seed);
    let stays = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    let mut services = Services::new();
    let snapshot = |services: &Services| {
        let changing = services
            .iter()
            .map(|(port, backends)| json(*port, backends));
        resync_with(&changing.chain([stays.json()]).collect::<Vec<_>>())
    };
    world.apply(&snapshot(&services));
    let tables = Tables::open(&world.pins);
    let all = tables.view();
    let changing = |tables: &Tables| -> View {
        let view = tables.view().into_iter();
        view.filter(|(key, _)| !all.contains_key(key)).collect()
    };
    let mut open = world
        .client_pod()
        .enter(|| stays.cluster_ip().connect().unwrap());

    let mut applied = 0;
    for kill in 0..setting("SHUNT_KILLS").unwrap_or(by_length(KILLS, MANY_KILLS)) {
        let mut states = vec![services.clone()];
        let mut events = Vec::new();
        for _ in 0..EVENTS {
            events.push(change(&mut services, &mut random));
            states.push(services.clone());
        }
        // From time to time the agent is killed in the Resync.
        if random.below(3) == 0 {
            let last = snapshot(&services);
            events = vec![last];
            states.drain(1..EVENTS);
        }
        world.agent.send(&events).unwrap();
        thread::sleep(Duration::from_micros(random.below(LONGEST)));
        let unattended = world.killed();

        let seen = changing(&tables);
        let views: Vec<View> = states.iter().map(view).collect();
        let whole = |pair: &[View]| {
            let mut keys = pair.iter().flat_map(View::keys).chain(seen.keys());
            keys.all(|key| pair.iter().any(|view| view.get(key) == seen.get(key)))
        };
        let found = views.windows(2).position(whole);
        assert!(
            found.is_some(),
            "after kill {kill} each frontend must be old or new, but {seen:#?}"
        );
        applied += found.unwrap_or_default();
        open.echo(REQUEST).unwrap();

        world = unattended.start(&[]);
        world.apply(&snapshot(&services));
        assert_eq!(changing(&tables), view(&services), "after kill {kill}");
        assert_eq!(world.writes(&snapshot(&services)), 0, "after kill {kill}");
        open.echo(REQUEST).unwrap();
        let backends: usize = services.values().map(Vec::len).sum();
        assert_eq!(
            tables.backend_count(),
            backends + 1,
            "no backend leaks, after kill {kill}"
        );
    }
    println!("{applied} events were applied before kills");
    world.apply(&resync_with(&[]));
    assert_eq!(tables.backend_count(), 0, "no backend leaks");
    let large: Vec<u8> = (1..=250).collect();
    world.apply(&resync_with(&[json(80, &large)]));
    assert_eq!(tables.view(), view(&Services::from([(80, large)])));
}
