//! Namespaces with the worst objects that their authors may write: the Services of other namespaces are translated
//! all the same. Times are the business of the benches.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::Range,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shunt_tests::{
    Agent, ApiServer, PinDir, Sandbox, addresses, agent_binary, by_length, wait_until,
};

use crate::{
    objects::{SERVED, and, node, ready, service, slice, with},
    route_objects::{SERVICE_PROFILES, TRAFFIC_SPLITS, definition, service_profile, traffic_split},
    world::{Frontends, Pods, World, follow_flags, kill},
};

/// Numbers of a test.
#[derive(Clone, Copy)]
struct Sizes {
    /// Namespaces with the worst objects.
    tenants: u32,
    /// Services of others, ten in each namespace, with a frontend of each family.
    honest: u32,
    /// Number of times that each tenant changes all of its objects.
    rounds: u32,
    /// Ports and addresses of a Service that is larger than the table.
    large: [u32; 2],
    /// Ports and addresses of a Service that fits, but not beside that of another tenant.
    greedy: [u32; 2],
    /// Addresses of a Service with one port.
    addresses: u32,
    /// Small Services of a tenant.
    crowd: u32,
    /// Endpoints of a Service with Maglev tables.
    endpoints: u32,
    /// Flags with the sizes of the tables.
    flags: &'static [&'static str],
}

const SHORT: Sizes = Sizes {
    tenants: 10,
    honest: 200,
    rounds: 3,
    large: [25, 100],
    greedy: [25, 60],
    addresses: 3_000,
    crowd: 10,
    endpoints: 20,
    flags: &[
        "--max-frontends",
        "2048",
        "--max-slots",
        "32768",
        "--max-backends",
        "4096",
    ],
};

/// With tables of their default sizes.
const FULL: Sizes = Sizes {
    tenants: 100,
    honest: 5_000,
    rounds: 20,
    large: [250, 300],
    greedy: [200, 250],
    addresses: 100_000,
    crowd: 20,
    endpoints: 79,
    flags: &[],
};

/// Number of lines that the log may have in a minute.
const LINES: u64 = 100;

/// Number of honest Services of a namespace.
const EACH: u32 = 10;

/// Time until all is translated.
const ALL: Duration = Duration::from_mins(2);

/// The ClusterIPs of a kind of Services: the number of the kind is the second one of the address.
fn cluster_ip(kind: u8, number: u32) -> IpAddr {
    let [_, _, high, low] = number.to_be_bytes();
    // No address ends with 0 or 255.
    let number = u32::from(high) * 256 + u32::from(low);
    let (third, last) = (number / 200, number % 200 + 1);
    Ipv4Addr::new(10, kind, third as u8, last as u8).into()
}

/// An object in another namespace.
fn of(namespace: &str, object: Value) -> Value {
    with(object, "/metadata/namespace", namespace)
}

fn honest_name(number: u32) -> (String, String) {
    (format!("honest-{}", number / EACH), format!("web-{number}"))
}

/// The address of an honest Service's endpoint after so many changes.
fn honest_endpoint(number: u32, changes: u32) -> IpAddr {
    cluster_ip(128 + (changes % 64) as u8, number)
}

/// An honest Service.
fn honest_service(number: u32) -> Value {
    let (namespace, name) = honest_name(number);
    of(
        &namespace,
        service(&name, &cluster_ip(96, number).to_string()),
    )
}

/// The slices of an honest Service, one of each family.
fn honest_slices(number: u32, changes: u32) -> [Value; 2] {
    let (namespace, name) = honest_name(number);
    let endpoint = honest_endpoint(number, changes);
    [("4", endpoint), ("6", addresses::v6(endpoint))]
        .map(|(family, endpoint)| of(&namespace, slice(&name, family, &[ready(endpoint)])))
}

/// Adds the frontends of an honest Service, after so many changes.
fn expect(expected: &mut Frontends, number: u32, changes: u32) {
    let ip = cluster_ip(96, number);
    let endpoint = honest_endpoint(number, changes);
    for (ip, endpoint) in [(ip, endpoint), (addresses::v6(ip), addresses::v6(endpoint))] {
        let backend = SocketAddr::new(endpoint, SERVED).to_string();
        let frontend = format!("{}/TCP", SocketAddr::new(ip, 80));
        expected.insert(frontend, BTreeSet::from([backend]));
    }
}

/// The Service of this name of a tenant: older than all others, of IPv4 alone, with these ports and external addresses.
fn tenants(
    tenant: u32,
    name: &str,
    number: u32,
    ports: Range<u32>,
    external: impl Iterator<Item = IpAddr>,
) -> Value {
    let ip = cluster_ip(97, tenant * 64 + number).to_string();
    let mut service = of(&format!("tenant-{tenant}"), service(name, &ip));
    service["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z".into();
    service["spec"]["clusterIPs"] = json!([ip]);
    service["spec"]["ipFamilies"] = json!(["IPv4"]);
    let ports =
        ports.map(|port| json!({ "name": format!("p{port}"), "port": port, "protocol": "TCP" }));
    service["spec"]["ports"] = ports.collect();
    service["spec"]["externalIPs"] = external.map(|ip| json!(ip)).collect();
    service
}

/// So many addresses of the outside, which are a tenant's own.
fn outside(tenant: u32, count: u32) -> impl Iterator<Item = IpAddr> {
    let first = Ipv4Addr::new(20, 0, 0, 0).to_bits() + (tenant << 17);
    (0..count).map(move |number| Ipv4Addr::from_bits(first + number).into())
}

/// All objects of a tenant, in a form that is another one in each round.
fn worst(tenant: u32, sizes: &Sizes, round: u32) -> Vec<Value> {
    let namespace = format!("tenant-{tenant}");
    // An address more or less changes each Service.
    let more = round % 2;
    let [large_ports, large_addresses] = sizes.large;
    let [ports, addresses] = sizes.greedy;
    let ports = 1000..1000 + ports;
    let mut objects = vec![
        tenants(
            tenant,
            "large",
            0,
            1000..1000 + large_ports,
            outside(tenant, large_addresses + more),
        ),
        tenants(
            tenant,
            "greedy",
            1,
            ports.clone(),
            outside(tenant, addresses - more),
        ),
        // The same frontends: each is a conflict.
        tenants(
            tenant,
            "twin",
            2,
            ports.clone(),
            outside(tenant, addresses - more),
        ),
        tenants(
            tenant,
            "many",
            3,
            80..81,
            outside(tenant, sizes.addresses - more),
        ),
    ];
    // The ClusterIPs of others.
    let stolen = (0..sizes.honest)
        .skip(tenant as usize)
        .step_by(sizes.tenants as usize);
    let stolen = stolen
        .skip(more as usize)
        .map(|number| cluster_ip(96, number));
    objects.push(tenants(tenant, "thief", 4, 80..81, stolen.take(100)));
    let none = || outside(tenant, 0);
    let dsr = tenants(tenant, "dsr", 5, 80..81 + more, none());
    let dsr = and(
        dsr,
        "/metadata",
        "annotations",
        json!({ "service.shunt.io/forwarding": "dsr" }),
    );
    let maglev = tenants(tenant, "maglev", 6, 80..81, none());
    let maglev = and(
        maglev,
        "/metadata",
        "annotations",
        json!({ "service.shunt.io/selection": "maglev" }),
    );
    objects.extend([dsr, maglev]);
    let endpoints = (0..sizes.endpoints - more).map(|number| {
        let address = Ipv4Addr::new(10, 200, tenant as u8, number as u8 + 1);
        ready(address.into())
    });
    let endpoints: Vec<Value> = endpoints.collect();
    let slice_of = |name: &str, port: &str| {
        let slice = of(&namespace, slice(name, "4", &endpoints));
        with(slice, "/ports/0/name", port)
    };
    objects.push(slice_of("maglev", "p80"));
    objects.extend(["greedy", "twin"].map(|name| slice_of(name, "p1000")));
    for number in 0..sizes.crowd {
        let name = format!("crowd-{number}");
        objects.push(tenants(tenant, &name, 10 + number, 80..90 + more, none()));
    }
    objects.extend(unreadable(&namespace, more));
    objects
}

/// Objects that no reader of their kind expects.
fn unreadable(namespace: &str, more: u32) -> [Value; 5] {
    let nested = (0..1000 + more).fold(json!(1), |inner, _| json!([inner]));
    let half = slice("dsr", "5", &[ready(addresses::POD_A)]);
    [
        with(
            service("odd", "10.98.0.1"),
            "/spec/ports",
            format!("http-{more}"),
        ),
        with(slice("odd", "4", &[]), "/endpoints", 7 + more),
        with(half, "/ports/0/port", -1 - i64::from(more)),
        with(
            traffic_split(&[("dsr", 1)]),
            "/spec/backends/0/weight",
            0.5 + f64::from(more),
        ),
        with(service_profile("dsr"), "/spec/routes", nested),
    ]
    .map(|object| of(namespace, object))
}

/// A node with its cluster, and the frontends that the honest Services have to have.
struct Cluster {
    world: World,
    sizes: Sizes,
    expected: Frontends,
}

impl Cluster {
    fn new() -> Option<Self> {
        let sizes = by_length(SHORT, FULL);
        let sandbox = Sandbox::serving(SERVED)?;
        let server = ApiServer::start(sandbox.node()).unwrap();
        server.put(node("node-1", addresses::NODE));
        server.put(node("node-2", addresses::NODE2));
        for kind in [TRAFFIC_SPLITS, SERVICE_PROFILES] {
            server.put(definition(kind, &["v1alpha2"]));
        }
        for tenant in 0..sizes.tenants {
            for object in worst(tenant, &sizes, 0) {
                server.put(object);
            }
        }
        let mut expected = Frontends::new();
        for number in 0..sizes.honest {
            server.put(honest_service(number));
            for slice in honest_slices(number, 0) {
                server.put(slice);
            }
            expect(&mut expected, number, 0);
        }
        server.forget_known();
        let pins = PinDir::new();
        let agent = start(&sandbox, &server, &pins, sizes.flags);
        let world = World {
            agent,
            server,
            pins,
            sandbox,
        };
        Some(Self {
            world,
            sizes,
            expected,
        })
    }

    /// Waits until the kernel has all honest Services as they are now.
    #[track_caller]
    fn await_honest(&self) {
        let mut missing = Vec::new();
        let found = wait_until("all honest Services are translated", ALL, || {
            let live = self.world.frontends();
            let expected = self.expected.iter();
            let expected =
                expected.filter(|(frontend, backends)| live.get(*frontend) != Some(*backends));
            missing = expected.map(|(frontend, _)| frontend.clone()).collect();
            missing.is_empty().then_some(())
        });
        assert!(
            found.is_ok(),
            "{} are missing, of which {:?} is the first\nlog:\n{}",
            missing.len(),
            missing.first(),
            self.world.agent.log()
        );
        let source = self.world.source();
        let untranslated = source["untranslated"].as_array().unwrap().iter();
        let names = untranslated.map(|one| one["service"].as_str().unwrap());
        let honest: Vec<&str> = names.filter(|name| name.starts_with("honest-")).collect();
        assert_eq!(honest, [""; 0], "the status names them");
    }

    /// Has each tenant change all of its objects, and as many honest Services get another endpoint.
    fn change(&mut self, round: u32) {
        let Self {
            world,
            sizes,
            expected,
        } = self;
        for tenant in 0..sizes.tenants {
            for object in worst(tenant, sizes, round) {
                world.server.put(object);
            }
            let number = (round * sizes.tenants + tenant) % sizes.honest;
            for slice in honest_slices(number, round) {
                world.server.put(slice);
            }
            expect(expected, number, round);
        }
    }

    /// Kills the agent, and starts the next one.
    fn restart(self, keeps_pins: bool) -> Self {
        let Self {
            world:
                World {
                    agent,
                    server,
                    pins,
                    sandbox,
                },
            sizes,
            expected,
        } = self;
        kill(agent);
        let pins = if keeps_pins {
            pins
        } else {
            drop(pins);
            PinDir::new()
        };
        let agent = start(&sandbox, &server, &pins, sizes.flags);
        let world = World {
            agent,
            server,
            pins,
            sandbox,
        };
        Self {
            world,
            sizes,
            expected,
        }
    }
}

/// Starts an agent that logs as it does at a node.
fn start(sandbox: &Sandbox, server: &ApiServer, pins: &PinDir, sizes: &[&str]) -> Agent {
    let flags = [&follow_flags(server, Pods::ByFlag), sizes].concat();
    Agent::follow_quietly(&agent_binary(), sandbox.node(), pins, &flags).unwrap()
}

#[test]
fn the_worst_objects_of_tenants_leave_all_other_services_translated() {
    let Some(mut cluster) = Cluster::new() else {
        return;
    };
    cluster.await_honest();
    // What is logged at the start is behind us.
    let lines = |cluster: &Cluster| cluster.world.agent.log().lines().count() as u64;
    let (before, begin) = (lines(&cluster), Instant::now());
    for round in 1..=cluster.sizes.rounds {
        cluster.change(round);
        cluster.await_honest();
        cluster.world.server.forget_known();
        let minutes = begin.elapsed().as_secs() / 60 + 1;
        let new = lines(&cluster) - before;
        assert!(
            new <= LINES * minutes,
            "{new} lines in {minutes} minutes:\n{}",
            cluster.world.agent.log()
        );
    }
    for keeps_pins in [true, false] {
        cluster = cluster.restart(keeps_pins);
        cluster.await_honest();
    }
}
