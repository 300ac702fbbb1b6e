//! Services of both families.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use serde_json::{Value, json};
use shunt_tests::{
    Ack, Agent, Failure, ForeignSources, PinDir, Sandbox, Target, Transport, addresses, has_root,
    wait_until,
};

use crate::{
    service::Service,
    world::{REQUEST, SERVED, World, all_answered, all_answered_outside, binary, resync},
};

/// Time that the log may take.
const SOON: Duration = Duration::from_secs(5);

/// So many connections miss one of three equal backends in one of 10^17 runs.
const ENOUGH: u32 = 100;

const TRANSPORTS: [Transport; 2] = [Transport::Tcp, Transport::Udp];

/// A target, or the same in IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    pub(crate) fn of(self, ip: IpAddr) -> IpAddr {
        match self {
            Self::V4 => ip,
            Self::V6 => addresses::v6(ip),
        }
    }

    pub(crate) fn target(self, target: Target) -> Target {
        target.to(self.of(target.address().ip()))
    }

    pub(crate) fn backend(self, world: &World, pod: &str) -> SocketAddr {
        match self {
            Self::V4 => world.backend(pod),
            Self::V6 => world.backend_v6(pod),
        }
    }
}

/// A world whose nodes have addresses of both families.
pub(crate) fn world() -> Option<World> {
    world_with_flags(&[])
}

/// The same with further flags for the agent.
pub(crate) fn world_with_flags(flags: &[&str]) -> Option<World> {
    let mut world = World::with_flags(flags)?;
    let nodes = [addresses::NODE, addresses::NODE2];
    let mut event: Value = serde_json::from_str(&resync()).unwrap();
    event["node_ips"] = json!([nodes, nodes.map(addresses::v6)].concat());
    world.apply(&event.to_string());
    Some(world)
}

/// A service of both families on these pods.
pub(crate) fn service(world: &World, transport: Transport, pods: &[&str]) -> Service {
    let both = pods
        .iter()
        .flat_map(|pod| Family::BOTH.map(|family| family.backend(world, pod)));
    both.fold(Service::new(transport).dual_stack(), Service::backend)
}

#[test]
fn a_pod_s_own_address_leads_to_it_in_both_families() {
    let Some(world) = world() else {
        return;
    };
    for family in Family::BOTH {
        for transport in TRANSPORTS {
            let backend = family.backend(&world, "pod-d");
            let direct = Target::new(transport, backend);
            for from in [world.client_pod(), world.sandbox.outside()] {
                assert_eq!(all_answered(from, direct, 10).of(backend), 10);
            }
        }
    }
}

#[test]
fn both_families_reach_all_backends_at_every_kind_of_frontend() {
    let Some(mut world) = world() else {
        return;
    };
    let pods = ["pod-a", "pod-b", "pod-d"];
    for transport in TRANSPORTS {
        let service = service(&world, transport, &pods);
        world.update(&service);
        for family in Family::BOTH {
            let backends = pods.map(|pod| family.backend(&world, pod));
            let inside = [
                service.cluster_ip(),
                service.node_port(),
                service.node_port_at(addresses::NODE2),
                service.external_ip(),
            ];
            for target in inside.map(|target| family.target(target)) {
                let tally = all_answered(world.client_pod(), target, ENOUGH);
                assert_eq!(
                    tally.backends(),
                    backends,
                    "a pod with {target:?}: all of the family's backends, and only they"
                );
            }
            let outer = [service.node_port(), service.external_ip()];
            for target in outer.map(|target| family.target(target)) {
                let tally = all_answered_outside(world.sandbox.outside(), target, ENOUGH);
                assert_eq!(
                    tally.backends(),
                    backends,
                    "outside with {target:?}: all of the family's backends, and only they"
                );
            }
        }
    }
}

#[test]
fn a_pod_reaches_itself_under_the_hairpin_address_of_the_family() {
    let Some(mut world) = world() else {
        return;
    };
    for transport in TRANSPORTS {
        let service = service(&world, transport, &["pod-a"]);
        world.update(&service);
        for (family, hairpin) in [
            (Family::V4, "169.254.254.1"),
            (Family::V6, "fd9a:7452:4a6d::1"),
        ] {
            let target = family.target(service.cluster_ip());
            let pod = world.sandbox.pod("pod-a").namespace();
            let tally = pod.enter(|| target.ask_times(20, REQUEST));
            assert!(tally.failures.is_empty(), "{target:?}: {tally:#?}");
            let seen = (family.backend(&world, "pod-a"), hairpin.parse().unwrap());
            assert_eq!(
                tally.foreign_sources,
                ForeignSources::from([(seen, 20)]),
                "it sees the hairpin address, not its own"
            );
        }
    }
}

#[test]
fn a_family_without_backends_is_refused_while_the_other_serves() {
    let Some(mut world) = world() else {
        return;
    };
    for transport in TRANSPORTS {
        for served in Family::BOTH {
            let backend = served.backend(&world, "pod-b");
            let service = Service::new(transport).dual_stack().backend(backend);
            world.update(&service);
            for family in Family::BOTH {
                let target = family.target(service.cluster_ip());
                if family == served {
                    world.ask_from_pod(target, 10);
                    continue;
                }
                let outcome = world.client_pod().enter(|| target.ask(REQUEST));
                assert!(
                    matches!(outcome, Err(Failure::Refused)),
                    "{target:?} must be refused at once, but {outcome:?}"
                );
            }
        }
    }
}

#[test]
fn a_service_that_one_family_has_no_room_for_changes_neither() {
    let Some(mut world) = world() else {
        return;
    };
    let before = service(&world, Transport::Tcp, &["pod-a"]);
    world.add(&before);
    // The agent has room for 256.
    let many = (0..300u16).map(|last| {
        let ip = [0xfd00, 0x10, 1, 9, 0, 0, 0, last].into();
        SocketAddr::new(ip, SERVED)
    });
    let too_large = many.fold(
        Service::new(Transport::Tcp)
            .dual_stack()
            .backend(world.backend("pod-b")),
        Service::backend,
    );
    let Ack::Refused(reason) = world
        .agent
        .apply(&too_large.event("UpdateService"))
        .unwrap()
    else {
        panic!("300 backends must be refused");
    };
    assert!(
        reason.contains("the backends table is full (IPv6)"),
        "{reason}"
    );
    for family in Family::BOTH {
        let tally = world.ask_from_pod(family.target(before.cluster_ip()), 10);
        let backend = family.backend(&world, "pod-a");
        assert_eq!(tally.of(backend), 10, "the service is as it was");
    }
}

#[test]
fn open_connections_of_both_families_survive_a_restart_of_the_agent() {
    let Some(mut world) = world() else {
        return;
    };
    let service = service(&world, Transport::Tcp, &["pod-a", "pod-d"]);
    world.add(&service);
    let mut connections = Family::BOTH.map(|family| {
        let target = family.target(service.cluster_ip());
        let connection = world.client_pod().enter(|| target.connect());
        connection.unwrap()
    });
    let first = connections
        .each_mut()
        .map(|connection| connection.echo(REQUEST).unwrap().backend);
    let _world = world.stopped().start(&[]);
    let second = connections
        .each_mut()
        .map(|connection| connection.echo(REQUEST).unwrap().backend);
    assert_eq!(first, second, "each goes on with its backend");
}

#[test]
fn connections_and_frontends_of_both_families_are_shown() {
    let Some(mut world) = world() else {
        return;
    };
    let service = service(&world, Transport::Tcp, &["pod-a"]);
    world.add(&service);
    let frontends = Family::BOTH.map(|family| family.target(service.cluster_ip()));
    let _open = frontends.map(|target| {
        let connection = world.client_pod().enter(|| target.connect());
        connection.unwrap()
    });
    let connections = world.shunt(&["conntrack", "-o", "json"]).json();
    for (family, target) in Family::BOTH.into_iter().zip(frontends) {
        let frontend = json!({ "ip": target.address().ip(), "port": target.address().port() });
        let mut connections = connections.as_array().unwrap().iter();
        let connection = connections
            .find(|connection| connection["frontend"] == frontend)
            .unwrap_or_else(|| panic!("a connection to {frontend}"));
        assert_eq!(
            connection["client"]["ip"],
            json!(family.of(addresses::POD_C))
        );
        assert_eq!(
            connection["backend"]["ip"],
            json!(family.of(addresses::POD_A))
        );

        let found = world.shunt(&["lookup", &target.address().to_string(), "-o", "json"]);
        let found = &found.json()["frontends"];
        assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
        assert_eq!(found[0]["backends"].as_array().unwrap().len(), 1, "{found}");
    }
    let services = world.shunt(&["services", "-o", "json"]).json();
    let services = services.as_array().unwrap();
    assert_eq!(services.len(), 8, "four frontends of each family");
}

#[test]
fn a_family_that_is_left_out_is_not_translated_and_that_is_said() {
    if !has_root() {
        return;
    }
    let mut sandbox = Sandbox::new().unwrap();
    sandbox.serve("pod-a", &[SERVED]).unwrap();
    let pins = PinDir::new();
    let flags = [["--ip-families", "ipv4"], ["--max-frontends", "64"]].concat();
    let agent = Agent::start(&binary(), sandbox.node(), &pins, &flags).unwrap();
    let mut world = World {
        agent,
        pins,
        sandbox,
    };
    world.apply(&resync());
    let service = service(&world, Transport::Tcp, &["pod-a"]);
    world.add(&service);
    world.ask_from_pod(service.cluster_ip(), 10);
    // It is logged after the event is acknowledged.
    wait_until("what is left out is said", SOON, || {
        let log = world.agent.log();
        let is_said =
            log.contains("2 frontends are not translated") && log.contains("--ip-families");
        is_said.then_some(())
    })
    .unwrap();
    let status = world.shunt(&["status", "-o", "json"]).json();
    assert_eq!(status["untranslated"], 2);
    assert_eq!(status["differences"], json!([]));
    let tables = status["tables"].as_array().unwrap();
    let capacity = |name: &str| {
        let mut tables = tables.iter();
        tables.find(|table| table["name"] == name).unwrap()["capacity"].clone()
    };
    assert_eq!(capacity("frontends_v4"), 64);
    assert_eq!(capacity("frontends_v6"), 1);
}
