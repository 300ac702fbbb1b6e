//! The notices for users, and their times.

use std::{net::IpAddr, sync::Arc};

use serde_json::json;
use shunt_model::{Conflict, FrontendKey, Precedence, Protocol, ServiceId};
use shunt_runtime::{Consequences, Listener, ListenerState, Listeners, Told};

use super::world::{World, service, slice};
use crate::{
    engine::{Change, Work},
    notices::notice::Notice,
};

const CREATED: &str = "2026-01-01T00:00:00Z";

fn conflict(port: u16, holder: &str, waiting: &str) -> Conflict {
    let id = |name: &str| Arc::new(ServiceId::new("default", name));
    Conflict {
        key: FrontendKey {
            address: IpAddr::from([10, 96, 0, 1]),
            port,
            protocol: Protocol::Tcp,
        },
        holder: id(holder),
        waiting: id(waiting),
        precedence: Precedence::Older,
    }
}

impl World {
    /// Returns a world with these Services, all of them sent to the renderer.
    fn of(names: &[&str]) -> Self {
        let mut world = Self::new();
        world.list_nothing();
        for name in names {
            let step = service(name, CREATED, json!({}));
            world.engine.take(Change::Service(step));
        }
        world.events();
        world
    }

    /// The next event is done, after which these wait.
    fn done(&mut self, conflicts: &[Conflict]) {
        let Work { about, .. } = self.engine.next().unwrap();
        let consequences = Consequences {
            conflicts: conflicts.to_vec(),
            ..Consequences::default()
        };
        self.engine.done(about, Ok(consequences));
    }

    /// Returns the notices since the last time: the Service, the reason and the words of each.
    fn told(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Ok(notice) = self.notices.try_recv() {
            let Notice {
                reason,
                regarding,
                related,
                note,
            } = notice;
            assert_eq!(*regarding.uid, *regarding.id.name, "tests have it so");
            let related = related.map_or_else(String::new, |related| format!(" {}", related.id));
            told.push(format!("{reason:?} {}{related}: {note}", regarding.id));
        }
        told
    }
}

#[test]
fn a_conflict_is_told_once_as_long_as_it_lasts_and_again_when_it_is_back() {
    let mut world = World::of(&["old", "new"]);
    let both = [conflict(80, "old", "new"), conflict(81, "old", "new")];
    let all = "FrontendConflict default/new default/old: served by Service default/old, which \
               is older: 10.96.0.1:80/TCP; 10.96.0.1:81/TCP";
    let one = all.replace("10.96.0.1:80/TCP; ", "");
    let steps = [
        ("new", &both[..], vec![all]),
        ("new", &both, vec![]),
        // The holder's event has the same.
        ("old", &both, vec![]),
        ("new", &both[..1], vec![]),
        ("old", &both, vec![&*one]),
        ("old", &[], vec![]),
        ("new", &both, vec![all]),
    ];
    for (number, (changes, conflicts, expected)) in steps.into_iter().enumerate() {
        let address = format!("10.0.0.{number}");
        let name = format!("{changes}-1");
        world.engine.take(slice(changes, &name, &[&*address]));
        world.done(conflicts);
        assert_eq!(world.told(), expected, "{changes}");
    }
}

#[test]
fn conflicts_of_a_resync_and_of_services_that_nobody_knows() {
    let mut world = World::new();
    world.list_nothing();
    for name in ["old", "new"] {
        let step = service(name, CREATED, json!({}));
        world.engine.take(Change::Service(step));
    }
    world.done(&[conflict(80, "old", "new"), conflict(80, "socket", "new")]);
    assert_eq!(world.told().len(), 1);
    // Another address for the same NodePort, while the first conflict goes on.
    let host: [IpAddr; 1] = [[192, 0, 2, 77].into()];
    world.engine.set_host_addresses(host.into());
    world.done(&[conflict(80, "old", "new"), conflict(30080, "old", "new")]);
    let told = world.told();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].ends_with("older: 10.96.0.1:30080/TCP"), "{told:?}");
}

#[test]
fn an_endpoint_that_is_refused_is_told_once() {
    let mut world = World::of(&["web"]);
    let mut told = |addresses: &[&str]| {
        world.engine.take(slice("web", "web-1", addresses));
        world.events();
        world.told()
    };
    let refused = "EndpointRefused default/web: endpoints[].addresses[0]: 127.0.0.1 is a loopback \
                   address, which cannot be used here";
    assert_eq!(told(&["127.0.0.1", "10.0.0.1"]), [refused]);
    assert_eq!(told(&["127.0.0.1", "10.0.0.2"]), [] as [&str; 0]);
    assert_eq!(told(&["10.0.0.2"]), [] as [&str; 0]);
    assert_eq!(told(&["127.0.0.1"]), [refused]);
}

#[test]
fn a_health_check_that_cannot_be_answered_is_told_once_for_each_problem() {
    let mut world = World::of(&["web"]);
    let listeners = |problem: Option<&str>| -> Listeners {
        let state = ListenerState {
            address: "192.0.2.1:30000".to_owned(),
            problem: problem.map(str::to_owned),
        };
        let listeners = [
            Listener::HealthCheck(ServiceId::new("default", "web")),
            Listener::HealthCheck(ServiceId::new("default", "unknown")),
            Listener::Metrics,
        ];
        listeners
            .into_iter()
            .map(|listener| (listener, state.clone()))
            .collect()
    };
    for (problem, expected) in [
        (None, None),
        (Some("in use"), Some("in use")),
        (Some("in use"), None),
        (Some("no right"), Some("no right")),
        (None, None),
        (Some("in use"), Some("in use")),
    ] {
        world.engine.look_at_listeners(&listeners(problem));
        let expected: Vec<String> = expected
            .iter()
            .map(|problem| {
                format!(
                    "HealthCheck default/web: node here failed to start healthcheck \
                     \"default/web\": {problem}"
                )
            })
            .collect();
        assert_eq!(world.told(), expected);
    }
}

#[test]
fn what_nobody_takes_is_dropped_and_counted() {
    let mut world = World::of(&["web"]);
    for number in 0..100 {
        let address = format!("127.0.0.{number}");
        world.engine.take(slice("web", "web-1", &[&*address]));
        world.events();
    }
    assert_eq!(world.told().len(), 64);
    let dropped = &world.reports.meters().told;
    let label = [("result", Told::Dropped.name())];
    assert_eq!(dropped.get_or_create(&label).get(), 36);
}
