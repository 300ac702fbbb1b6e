//! Agents that are killed while the cluster changes.
//!
//! `SHUNT_SEED` makes a run again.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, process, thread,
    time::Duration,
};

use serde_json::Value;
use shunt_tests::{ApiServer, Random, addresses, by_length, wait_until};

use crate::{
    objects::{ready, service, slice},
    world::{Frontends, REQUEST, SOON, World, kill, tcp},
};

const KILLS: u32 = 8;
const MANY_KILLS: u32 = 250;

/// Number of services that come and go.
const SERVICES: u32 = 6;

/// The services with the last bytes of their backends.
type Services = BTreeMap<u32, BTreeSet<u8>>;

fn name(number: u32) -> String {
    format!("s{number}")
}

fn address(number: u32) -> String {
    format!("10.96.2.{}", number + 1)
}

/// Changes a service or its slices.
fn change(server: &ApiServer, services: &mut Services, random: &mut Random) {
    let number = random.below(SERVICES);
    if random.below(6) == 0 {
        server.delete(&service(&name(number), &address(number)));
        server.delete(&slice(&name(number), "4", &[]));
        services.remove(&number);
        return;
    }
    if !services.contains_key(&number) {
        server.put(service(&name(number), &address(number)));
    }
    let backends: BTreeSet<u8> = (10..20).filter(|_| random.below(3) == 0).collect();
    let endpoints = backends.iter().map(|last| ready([10, 1, 1, *last].into()));
    let endpoints: Vec<Value> = endpoints.collect();
    server.put(slice(&name(number), "4", &endpoints));
    services.insert(number, backends);
}

/// Returns the expected content of the kernel.
fn expected(services: &Services, stays: &Frontends) -> Frontends {
    let mut frontends = stays.clone();
    for (number, backends) in services {
        let v6 = addresses::v6(address(*number).parse().unwrap());
        let shown = backends.iter().map(|last| format!("10.1.1.{last}:8080"));
        frontends.insert(format!("{}:80/TCP", address(*number)), shown.collect());
        frontends.insert(format!("[{v6}]:80/TCP"), BTreeSet::new());
    }
    frontends
}

#[test]
fn an_agent_may_be_killed_while_the_cluster_changes() {
    let Some(mut world) = World::new() else {
        return;
    };
    let seed = env::var("SHUNT_SEED")
        .ok()
        .map(|seed| seed.parse().unwrap());
    let seed = seed.unwrap_or_else(|| u64::from(process::id()));
    println!("SHUNT_SEED={seed}");
    let mut random = Random::new(seed, 0);
    world.server.put(service("stays", "10.96.0.10"));
    world
        .server
        .put(slice("stays", "4", &[ready(addresses::POD_A)]));
    let target = tcp("10.96.0.10", 80);
    world.await_pods(world.pod(), target, &["pod-a"]);
    let stays = world.frontends();
    let mut open = world.pod().enter(|| target.connect().unwrap());
    let mut services = Services::new();
    let (mut kills, mut idle_kills) = (0, 0);
    while kills < by_length(KILLS, MANY_KILLS) {
        for _ in 0..random.below(40) {
            change(&world.server, &mut services, &mut random);
            thread::sleep(Duration::from_micros(random.below(2_000).into()));
        }
        world = world.restart(kill, |server, _| {
            // Now and then the cluster goes on without an agent.
            for _ in 0..random.below(3) * 5 {
                change(server, &mut services, &mut random);
            }
            if random.below(4) == 0 {
                server.compact();
            }
        });
        kills += 1;
        while random.below(4) == 0 {
            // Before it knows much, or in the middle of its first Resync.
            thread::sleep(Duration::from_millis(random.below(100).into()));
            world = world.restart(kill, |_, _| {});
            kills += 1;
        }
        open.echo(REQUEST).unwrap();
        world.await_frontends(&expected(&services, &stays));
        let differences = &world.shunt("status")["differences"];
        assert_eq!(
            differences.as_array().unwrap().len(),
            0,
            "after kill {kills}: {differences}"
        );
        open.echo(REQUEST).unwrap();
        if kills >= by_length(KILLS, MANY_KILLS) || random.below(4) == 0 {
            // Nothing has changed since, so there is nothing to write.
            world.await_source("all is there", |source| source["synced"] == true);
            world = world.restart(kill, |_, _| {});
            kills += 1;
            idle_kills += 1;
            world.await_source("all is there again", |source| source["synced"] == true);
            // The log is read by a thread of its own.
            let writes = wait_until("the Resync is logged", SOON, || writes(&world.agent.log()));
            let log = world.agent.log();
            assert_eq!(writes.ok(), Some(0), "after kill {kills}: {log}");
        }
    }
    println!("{kills} kills, {idle_kills} of them with nothing changed since");
}

/// Returns the number of writes of the first Resync in this log.
fn writes(log: &str) -> Option<u64> {
    let (_, outcome) = log.split_once("Resync: ")?;
    let (counts, _) = outcome.split_once(" writes")?;
    counts.rsplit(' ').next()?.parse().ok()
}
