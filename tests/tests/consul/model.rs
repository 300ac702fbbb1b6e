//! Random registrations, deregistrations, health and maintenance in two datacenters, against a plain
//! model of what is to come of them, with two real Consuls in between.
//!
//! `SHUNT_SEED` makes a run again.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, process,
};

use serde_json::{Value, json};
use shunt_tests::{Random, by_length, wait_until};

use crate::{
    joined::two_datacenters,
    world::{Plan, SOON, World, ground, is_current},
};

/// So many changes come between two looks at the kernel.
const BETWEEN: u32 = 10;

/// The own datacenter, and another one.
const DATACENTERS: [&str; 2] = ["dc1", "dc2"];
const OWN: usize = 0;
const OTHER: usize = 1;

const SERVICES: u32 = 3;
const NODES: u32 = 3;
const IDS: u32 = 4;

/// An instance, as it was registered last.
#[derive(Debug, Clone)]
struct Instance {
    address: String,
    port: i64,
    /// Its address for other datacenters; a port of 0 is its own.
    wan: Option<(&'static str, i64)>,
    tags: Vec<&'static str>,
    version: &'static str,
    status: &'static str,
    weights: (i64, i64),
    maintenance: bool,
}

/// A service's resolver.
#[derive(Debug, Clone, Copy, Default)]
struct Resolver {
    /// True if only instances of version 2 count that pass their checks, also where another resolver leads here.
    only_some: bool,
    /// The datacenter and the service whose instances are wanted next.
    failover: Option<(usize, u32)>,
}

/// Key of an instance: datacenter, service, node and id.
type Key = (usize, u32, u32, u32);

/// The catalogs: instances, the nodes in maintenance, and the resolvers.
#[derive(Debug, Default)]
struct Model {
    instances: BTreeMap<Key, Instance>,
    maintained: BTreeSet<(usize, u32)>,
    resolvers: BTreeMap<u32, Resolver>,
}

/// The frontends: each service plain, one of each with filters, one with the tiers of its resolver, and one
/// that the other datacenter serves if no instance does here.
fn configuration() -> String {
    let frontends = (0..SERVICES).map(|service| {
        let number = service + 1;
        format!(
            "[[frontend]]\nservice = \"s{service}\"\nvip = \"10.200.3.{number}\"\nport = 80\n\n\
             [[frontend]]\nservice = \"s{service}\"\nname = \"some\"\nvip = \"10.200.4.{number}\"\n\
             port = 80\ntags = [\"Prod\", \"!canary\"]\nservice_meta = {{ version = \"2\" }}\n\
             only_passing = true\n\n\
             [[frontend]]\nservice = \"s{service}\"\nname = \"tiers\"\nvip = \"10.200.5.{number}\"\n\
             port = 80\nfailover = \"resolver\"\n\n\
             [[frontend]]\nservice = \"s{service}\"\nname = \"far\"\nvip = \"10.200.6.{number}\"\n\
             port = 80\nfailover = [\"dc2\"]\n\n"
        )
    });
    frontends.collect()
}

/// Returns the expected content of the kernel: backends that take connections, with their weights.
fn expected(model: &Model) -> BTreeMap<String, BTreeMap<String, i64>> {
    let mut frontends = BTreeMap::new();
    for service in 0..SERVICES {
        let number = service + 1;
        let plain = usable(model, OWN, service, false, |_| true);
        let far = if plain.is_empty() {
            usable(model, OTHER, service, false, |_| true)
        } else {
            plain.clone()
        };
        let some = usable(model, OWN, service, true, |instance| {
            instance.tags.contains(&"PROD")
                && !instance.tags.contains(&"Canary")
                && instance.version == "2"
        });
        frontends.insert(format!("10.200.3.{number}:80"), plain);
        frontends.insert(format!("10.200.4.{number}:80"), some);
        frontends.insert(format!("10.200.5.{number}:80"), of_tiers(model, service));
        frontends.insert(format!("10.200.6.{number}:80"), far);
    }
    frontends
}

/// Returns the backends of the first tier of the service's resolver that has any.
fn of_tiers(model: &Model, service: u32) -> BTreeMap<String, i64> {
    let resolver = |of| model.resolvers.get(&of).copied().unwrap_or_default();
    let tiers = [Some((OWN, service)), resolver(service).failover];
    let found = tiers.into_iter().flatten().map(|(datacenter, of)| {
        let Resolver { only_some, .. } = resolver(of);
        usable(model, datacenter, of, only_some, |instance| {
            !only_some || instance.version == "2"
        })
    });
    let mut found = found.filter(|backends| !backends.is_empty());
    found.next().unwrap_or_default()
}

/// The backends of a service that take connections, as the own datacenter reaches them.
fn usable(
    model: &Model,
    datacenter: usize,
    service: u32,
    only_passing: bool,
    is_wanted: impl Fn(&Instance) -> bool,
) -> BTreeMap<String, i64> {
    let mut backends = BTreeMap::<String, i64>::new();
    for (&(in_datacenter, of, node, _), instance) in &model.instances {
        let is_maintained = model.maintained.contains(&(in_datacenter, node));
        let weight = weight(instance, is_maintained, only_passing);
        let (address, port) = match instance.wan {
            Some((address, 0)) if datacenter == OTHER => (address, instance.port),
            Some(wan) if datacenter == OTHER => wan,
            _ => (&*instance.address, instance.port),
        };
        let is_usable = (in_datacenter, of) == (datacenter, service)
            && weight > 0
            && address.starts_with("10.")
            && (1..=65_535).contains(&port)
            && is_wanted(instance);
        if is_usable {
            let at = format!("{address}:{port}");
            let known = backends.entry(at).or_default();
            *known = weight.max(*known);
        }
    }
    backends
}

fn weight(instance: &Instance, node_is_maintained: bool, only_passing: bool) -> i64 {
    let (passing, warning) = instance.weights;
    match instance.status {
        _ if instance.maintenance || node_is_maintained => 0,
        "passing" => passing.max(1),
        "warning" if !only_passing => warning,
        _ => 0,
    }
}

fn one<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u32) as usize]
}

/// One change of the catalog.
fn change(world: &World, model: &mut Model, random: &mut Random) {
    let datacenter = random.below(2) as usize;
    let service = random.below(SERVICES);
    let node = random.below(NODES);
    let key = (datacenter, service, node, random.below(IDS));
    match random.below(11) {
        10 => resolve(world, model, random, service),
        0 | 1 => {
            model.instances.remove(&key);
            let body = json!({
                "Datacenter": DATACENTERS[datacenter], "Node": name(node), "ServiceID": id(key),
            });
            world.put("/v1/catalog/deregister", &body);
        }
        2 => maintain(world, model, (datacenter, node)),
        3..=5 if model.instances.contains_key(&key) => {
            let instance = model.instances.get_mut(&key).unwrap();
            instance.status = one(random, &["passing", "warning", "critical"]);
            instance.maintenance = random.below(5) == 0;
            let instance = instance.clone();
            register(world, key, &instance);
        }
        _ => {
            let instance = Instance {
                address: if random.below(8) == 0 {
                    one(random, &["db.example", "127.0.0.1", "fd00::1", " 10.1.1.1"]).to_owned()
                } else {
                    format!("10.9.{}.{}", random.below(2), 1 + random.below(6))
                },
                port: one(random, &[80, 80, 81, 65_535, 0, -1, 70_000]),
                wan: one(
                    random,
                    &[None, Some(("10.8.0.1", 0)), Some(("10.8.0.2", 8443))],
                ),
                tags: one(
                    random,
                    &[&[][..], &["PROD"], &["PROD", "Canary"], &["x", "PROD"]],
                )
                .to_vec(),
                version: one(random, &["1", "2", "2"]),
                status: one(random, &["passing", "passing", "warning", "critical"]),
                weights: one(random, &[(1, 1), (10, 2), (5, 0), (3, 7)]),
                maintenance: random.below(8) == 0,
            };
            register(world, key, &instance);
            model.instances.insert(key, instance);
        }
    }
}

fn name(node: u32) -> String {
    format!("m{node}")
}

fn id((_, service, _, id): Key) -> String {
    format!("s{service}-{id}")
}

fn register(world: &World, key: Key, instance: &Instance) {
    let (datacenter, service, node, _) = key;
    let maintenance = format!("_service_maintenance:{}", id(key));
    let of_service = |check: &str, status: &str| json!({ "Node": name(node), "CheckID": check, "Name": "c", "Status": status, "ServiceID": id(key) });
    // There is no way to take one check of many away with a registration.
    let status = if instance.maintenance {
        "critical"
    } else {
        "passing"
    };
    let checks = [
        of_service(&format!("c-{}", id(key)), instance.status),
        of_service(&maintenance, status),
    ];
    let (passing, warning) = instance.weights;
    let wan = |(address, port)| json!({ "wan": { "Address": address, "Port": port } });
    world.register(&json!({
        "Datacenter": DATACENTERS[datacenter],
        "Node": name(node),
        "Address": format!("192.168.99.{}", node + 1),
        "Service": {
            "Service": format!("s{service}"), "ID": id(key), "Address": instance.address,
            "Port": instance.port, "Tags": instance.tags, "Meta": { "version": instance.version },
            "Weights": { "Passing": passing, "Warning": warning },
            "TaggedAddresses": instance.wan.map(wan),
        },
        "Checks": checks,
    }));
}

/// A node goes into maintenance, or comes back.
fn maintain(world: &World, model: &mut Model, key: (usize, u32)) {
    let is_on = !model.maintained.remove(&key);
    if is_on {
        model.maintained.insert(key);
    }
    let (datacenter, node) = key;
    let status = if is_on { "critical" } else { "passing" };
    let check = json!({ "Node": name(node), "CheckID": "_node_maintenance", "Name": "m", "Status": status });
    world.register(&json!({
        "Datacenter": DATACENTERS[datacenter], "Node": name(node), "Address": format!("192.168.99.{}", node + 1), "Check": check,
    }));
}

/// A service has another resolver.
fn resolve(world: &World, model: &mut Model, random: &mut Random, service: u32) {
    let resolver = Resolver {
        only_some: random.below(3) == 0,
        failover: (random.below(4) > 0).then(|| {
            let another = (service + 1 + random.below(SERVICES - 1)) % SERVICES;
            match random.below(3) {
                0 => (OTHER, service),
                1 => (OTHER, another),
                _ => (OWN, another),
            }
        }),
    };
    model.resolvers.insert(service, resolver);
    let Resolver {
        only_some,
        failover,
    } = resolver;
    let mut entry = json!({
        "Kind": "service-resolver", "Name": format!("s{service}"),
        "Subsets": { "some": { "Filter": "Service.Meta.version == 2", "OnlyPassing": true } },
    });
    if only_some {
        entry["DefaultSubset"] = json!("some");
    }
    if let Some((datacenter, of)) = failover {
        let mut next = json!({});
        if of != service {
            next["Service"] = json!(format!("s{of}"));
        }
        if datacenter != OWN {
            next["Datacenters"] = json!([DATACENTERS[datacenter]]);
        }
        entry["Failover"] = json!({ "*": next });
    }
    world.put("/v1/config", &entry);
}

/// Returns the content of the kernel, with weights.
fn found(world: &World) -> BTreeMap<String, BTreeMap<String, i64>> {
    let services = world.shunt("services");
    let frontends = services.as_array().unwrap().iter();
    let at = |value: &Value, port: &Value| format!("{}:{port}", value.as_str().unwrap());
    frontends
        .map(|frontend| {
            let backends = frontend["backends"].as_array().unwrap().iter();
            let backends = backends.map(|backend| {
                let weight = backend["weight"].as_i64().unwrap();
                (at(&backend["ip"], &backend["port"]), weight)
            });
            let taking = backends.filter(|(_, weight)| *weight > 0).collect();
            (at(&frontend["address"], &frontend["port"]), taking)
        })
        .collect()
}

#[test]
fn the_kernel_has_what_the_catalogs_say() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let (near, _far) = two_datacenters(&sandbox, &binary);
    let plan = Plan::new(&configuration());
    let world = World::around(sandbox, near, plan, |_, _, _| {});
    let seed = env::var("SHUNT_SEED").ok();
    let seed = seed.map_or_else(|| process::id().into(), |seed| seed.parse().unwrap());
    println!("SHUNT_SEED={seed}");
    let mut random = Random::new(seed, 0);
    let mut model = Model::default();
    world.await_source("all is there", is_current);
    let steps = by_length(200, 2_000);
    for step in 1..=steps {
        change(&world, &mut model, &mut random);
        if step % BETWEEN == 0 {
            let expected = expected(&model);
            let mut last = BTreeMap::new();
            let same = wait_until("the kernel has it", SOON, || {
                last = found(&world);
                (last == expected).then_some(())
            });
            assert!(
                same.is_ok(),
                "after {step} steps: {last:#?}, not {expected:#?}\n{:#}\n{}",
                world.source(),
                world.agent.log()
            );
        }
    }
    let differences = &world.shunt("status")["differences"];
    assert_eq!(differences.as_array().map(Vec::len), Some(0));
    let usable: usize = expected(&model).values().map(BTreeMap::len).sum();
    println!("{steps} steps, {usable} backends at the end");
}
