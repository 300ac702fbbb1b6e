//! Answers that are late, cut off, refused or out of date.

use std::time::Duration;

use serde_json::Value;
use shunt_tests::{ApiServer, Faults, Kind, addresses, wait_until};

use crate::{
    objects::{node, ready, service, service_cidr, slice},
    world::{Frontends, SOON, World},
};

/// As many services as there are numbers, each with a pod.
fn fill(server: &ApiServer, numbers: impl IntoIterator<Item = u8>) {
    for number in numbers {
        let name = format!("s{number}");
        server.put(service(&name, &format!("10.96.1.{number}")));
        server.put(slice(&name, "4", &[ready(addresses::POD_A)]));
    }
}

fn empty(server: &ApiServer, numbers: impl IntoIterator<Item = u8>) {
    for number in numbers {
        let name = format!("s{number}");
        server.delete(&service(&name, "10.96.1.1"));
        server.delete(&slice(&name, "4", &[]));
    }
}

/// Returns the expected content of the kernel.
fn expected(numbers: impl IntoIterator<Item = u8>) -> Frontends {
    let mut frontends = Frontends::new();
    for number in numbers {
        let v4 = format!("10.96.1.{number}");
        let v6 = addresses::v6(v4.parse().unwrap());
        frontends.insert(format!("{v4}:80/TCP"), ["10.1.1.3:8080".to_owned()].into());
        frontends.insert(format!("[{v6}]:80/TCP"), [].into());
    }
    frontends
}

fn nodes(server: &ApiServer) {
    server.put(node("node-1", addresses::NODE));
}

#[test]
fn a_list_comes_in_pages() {
    let Some(world) = World::with(&[], |server| {
        nodes(server);
        fill(server, 1..=20);
        server.set_faults(Faults {
            page: Some(3),
            ..Faults::default()
        });
    }) else {
        return;
    };
    world.await_frontends(&expected(1..=20));
    let requests = world.server.requests();
    let pages = requests
        .iter()
        .filter(|uri| uri.contains("continue="))
        .count();
    assert!(pages >= 12, "{requests:#?}");
}

#[test]
fn what_was_forgotten_is_listed_anew() {
    let Some(world) = World::with(&[], |server| {
        nodes(server);
        fill(server, 1..=10);
    }) else {
        return;
    };
    world.await_frontends(&expected(1..=10));
    let relists = || world.source()["relists"].as_u64().unwrap();
    let before = relists();
    // In one step for a watch: gone, and forgotten that it is.
    world.server.set_faults(Faults {
        status: Some(503),
        ..Faults::default()
    });
    world.server.cut();
    empty(&world.server, 1..=5);
    fill(&world.server, 11..=12);
    world.server.compact();
    world.server.set_faults(Faults::default());
    world.await_frontends(&expected(6..=12));
    assert!(relists() > before);
    // The list itself is forgotten in its middle, until it is not. No watch is open when it changes.
    world.server.set_faults(Faults {
        status: Some(503),
        ..Faults::default()
    });
    world.server.cut();
    let lost = |source: &Value| source["connected"] == false;
    world.await_source("nobody watches", lost);
    empty(&world.server, 6..=6);
    world.server.compact();
    let asked = world.server.requests().len();
    world.server.set_faults(Faults {
        page: Some(2),
        forgets_pages: true,
        ..Faults::default()
    });
    wait_until("the list does not come to its end", SOON, || {
        let requests = world.server.requests();
        let pages = requests[asked..].iter();
        let further = pages.filter(|request| request.contains("continue="));
        (further.count() >= 2).then_some(())
    })
    .unwrap();
    assert_eq!(world.frontends(), expected(6..=12), "half a list is none");
    world.server.set_faults(Faults::default());
    world.await_frontends(&expected(7..=12));
}

#[test]
fn bad_answers_change_nothing_and_good_ones_are_taken_up() {
    let Some(world) = World::with(&[], |server| {
        nodes(server);
        fill(server, 1..=3);
    }) else {
        return;
    };
    world.await_frontends(&expected(1..=3));
    let mut known = 3;
    let bad = |status: u16, retry_after: u32| Faults {
        status: Some(status),
        retry_after,
        ..Faults::default()
    };
    let half_lists = Faults {
        half_lists: true,
        ..Faults::default()
    };
    for (what, says, is_listed_anew) in [
        ("too many requests", bad(429, 1), false),
        ("an error of the server", bad(500, 0), false),
        ("no right", bad(403, 0), false),
        ("half a list", half_lists, true),
    ] {
        world.server.set_faults(says);
        if is_listed_anew {
            world.server.compact();
        }
        world.server.cut();
        let lost = |source: &Value| source["connected"] == false;
        world.await_source(what, lost);
        known += 1;
        fill(&world.server, known..=known);
        assert_eq!(world.frontends(), expected(1..known), "{what}");
        world.server.set_faults(Faults::default());
        world.await_frontends(&expected(1..=known));
        world.await_source(what, |source| source["connected"] == true);
    }
}

#[test]
fn an_event_that_is_cut_off_comes_again_whole() {
    let Some(world) = World::with(&[], nodes) else {
        return;
    };
    world.await_source("all is listed", |source| source["synced"] == true);
    let half_events = Faults {
        half_events: true,
        ..Faults::default()
    };
    for number in 1..=5 {
        world.server.set_faults(half_events.clone());
        fill(&world.server, number..=number);
        let asked = world.server.requests().len();
        wait_until("it is asked for again", SOON, || {
            (world.server.requests().len() > asked + 2).then_some(())
        })
        .unwrap();
        assert_eq!(world.frontends(), expected(1..number));
        world.server.set_faults(Faults::default());
        world.await_frontends(&expected(1..=number));
    }
}

#[test]
fn connections_that_are_cut_again_and_again_lose_nothing() {
    let Some(world) = World::with(&[], nodes) else {
        return;
    };
    for number in 1..=30 {
        fill(&world.server, number..=number);
        world.server.cut();
    }
    world.await_frontends(&expected(1..=30));
    for number in 1..=29 {
        empty(&world.server, number..=number);
        world.server.cut();
    }
    world.await_frontends(&expected(30..=30));
}

#[test]
fn a_slow_server_is_waited_for() {
    let slow = Faults {
        pause: Some(Duration::from_micros(100)),
        ..Faults::default()
    };
    let Some(world) = World::with(&[], |server| {
        nodes(server);
        fill(server, 1..=5);
        server.set_faults(slow);
    }) else {
        return;
    };
    world.await_frontends(&expected(1..=5));
    fill(&world.server, 6..=6);
    world.await_frontends(&expected(1..=6));
}

#[test]
fn a_cluster_without_service_cidrs_is_one_too() {
    let cidrs = service_cidr("kubernetes", &["10.96.0.0/16", "fd00:10:96::/48"]);
    for lacks in [None, Some(Kind::ServiceCidr)] {
        let Some(world) = World::with(&[], |server| {
            nodes(server);
            fill(server, 1..=1);
            server.put(cidrs.clone());
            server.set_faults(Faults {
                lacks,
                ..Faults::default()
            });
        }) else {
            return;
        };
        world.await_frontends(&expected(1..=1));
        let source = world.source();
        let found = source["service_cidrs"].as_array().unwrap();
        assert_eq!(
            found.len(),
            if lacks.is_some() { 0 } else { 2 },
            "{source:#}"
        );
        assert_eq!(source["connected"], true);
    }
}

#[test]
fn what_no_watch_begins_at_is_listed_anew() {
    let Some(world) = World::with(&[], |server| {
        nodes(server);
        fill(server, 1..=3);
    }) else {
        return;
    };
    world.await_frontends(&expected(1..=3));
    // A version of the future, as after etcd was restored: "Too large resource version".
    world.server.set_faults(Faults {
        watches: Some(504),
        ..Faults::default()
    });
    world.server.cut();
    fill(&world.server, 4..=5);
    wait_until("all are listed anew", 3 * SOON, || {
        let frontends = world.frontends();
        (frontends == expected(1..=5)).then_some(())
    })
    .unwrap();
    world.server.set_faults(Faults::default());
    fill(&world.server, 6..=6);
    world.await_frontends(&expected(1..=6));
}
