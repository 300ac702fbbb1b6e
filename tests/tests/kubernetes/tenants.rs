//! Namespaces with the worst objects that their authors may write: the Services of other namespaces are translated
//! all the same. Times are the business of the benches.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    time::{Duration, Instant},
};

use shunt_tests::{
    Agent, ApiServer, PinDir, Sandbox, addresses, agent_binary, by_length,
    tenants::{
        TenantSizes, honest_endpoint, honest_ip, honest_service, honest_slices, worst_objects,
    },
    wait_until,
};

use crate::{
    objects::{SERVED, node},
    route_objects::{SERVICE_PROFILES, TRAFFIC_SPLITS, definition},
    world::{Frontends, Pods, World, follow_flags, kill},
};

/// Number of lines that the log may have in a minute.
const LINES: u64 = 100;

/// Time until all is translated.
const ALL: Duration = Duration::from_mins(2);

/// Adds the frontends of an honest Service, after so many changes.
fn expect(expected: &mut Frontends, number: u32, changes: u32) {
    let ip = honest_ip(number);
    let endpoint = honest_endpoint(number, changes);
    for (ip, endpoint) in [(ip, endpoint), (addresses::v6(ip), addresses::v6(endpoint))] {
        let backend = SocketAddr::new(endpoint, SERVED).to_string();
        let frontend = format!("{}/TCP", SocketAddr::new(ip, 80));
        expected.insert(frontend, BTreeSet::from([backend]));
    }
}

/// A node with its cluster, and the frontends that the honest Services have to have.
struct Cluster {
    world: World,
    sizes: TenantSizes,
    /// Number of times that each tenant changes all of its objects.
    rounds: u32,
    expected: Frontends,
}

impl Cluster {
    fn new() -> Option<Self> {
        let (sizes, rounds) = by_length((TenantSizes::SHORT, 3), (TenantSizes::FULL, 20));
        let sandbox = Sandbox::serving(SERVED)?;
        let server = ApiServer::start(sandbox.node()).unwrap();
        server.put(node("node-1", addresses::NODE));
        server.put(node("node-2", addresses::NODE2));
        for kind in [TRAFFIC_SPLITS, SERVICE_PROFILES] {
            server.put(definition(kind, &["v1alpha2"]));
        }
        for tenant in 0..sizes.tenants {
            for object in worst_objects(tenant, &sizes, 0) {
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
            rounds,
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
            rounds: _,
            expected,
        } = self;
        for tenant in 0..sizes.tenants {
            for object in worst_objects(tenant, sizes, round) {
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
            rounds,
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
            rounds,
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
    for round in 1..=cluster.rounds {
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
