//! Endpoints of workloads outside the cluster, with a server and controllers that fail.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use shunt_tests::{Faults, Kind, by_length, wait_until};

use crate::{
    controller::{Cluster, LEASE},
    objects::with,
    route_objects::definition,
    workload_objects::{WORKLOADS, endpoints, ours, selecting, workload},
    world::SOON,
};

#[test]
fn a_server_that_refuses_slices_is_asked_again_or_not_as_it_says() {
    let Some(cluster) = Cluster::new("workloads-refused") else {
        return;
    };
    let server = &cluster.server;
    server.put(definition(WORKLOADS, &["v1alpha1"]));
    server.put(selecting("db", "10.96.0.20"));
    let one = cluster.start("one", 18_150);
    for (number, status) in [409, 403, 422, 429, 500, 503].into_iter().enumerate() {
        let before = cluster.slice_writes();
        server.set_faults(Faults {
            slices: Some(status),
            ..Faults::default()
        });
        server.put(workload(
            &format!("vm-{number}"),
            &format!("192.0.2.{}", number + 1),
        ));
        wait_until("it is tried again", SOON, || {
            (cluster.slice_writes() > before + 1).then_some(())
        })
        .unwrap_or_else(|error| panic!("{status}: {error}\n{}", one.process.log()));
        server.set_faults(Faults::default());
        wait_until("it is written", SOON, || {
            (cluster.published("db").len() == number + 1).then_some(())
        })
        .unwrap_or_else(|error| panic!("{status}: {error}\n{}", one.process.log()));
    }
    // The user of the Service got an Event about what is forbidden.
    wait_until("an Event", SOON, || {
        let events = server.events().into_iter();
        let mut told = events.filter(|event| event["reason"] == "FailedToPublish");
        told.find(|event| event["regarding"]["name"] == "db")
    })
    .unwrap();
    // What is being removed is left until something changes.
    let before = cluster.slice_writes();
    server.set_faults(Faults {
        slices: Some(403),
        cause: Some("NamespaceTerminating"),
        ..Faults::default()
    });
    server.put(workload("left", "198.51.100.3"));
    wait_until("it is tried", SOON, || {
        (cluster.slice_writes() > before).then_some(())
    })
    .unwrap();
    server.set_faults(Faults::default());
    // Longer than the first pause of what is refused.
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(cluster.slice_writes(), before + 1, "{}", one.process.log());
}

#[test]
fn a_server_that_asks_for_a_pause_has_it() {
    let Some(cluster) = Cluster::new("workloads-pause") else {
        return;
    };
    let server = &cluster.server;
    server.put(definition(WORKLOADS, &["v1alpha1"]));
    server.put(selecting("db", "10.96.0.20"));
    let one = cluster.start("one", 18_200);
    // A first one, so that it is known to lead.
    server.put(workload("first", "192.0.2.1"));
    cluster.await_published("db", &[("first", true)], &one.process);
    for (name, ip, is_plain) in [
        ("status", "192.0.2.2", false),
        ("header", "192.0.2.3", true),
    ] {
        server.set_faults(Faults {
            slices: Some(429),
            retry_after: 3,
            is_plain,
            ..Faults::default()
        });
        let before = cluster.slice_writes();
        let known = cluster.published("db").len();
        server.put(workload(name, ip));
        wait_until("it is tried", SOON, || {
            (cluster.slice_writes() > before).then_some(())
        })
        .unwrap();
        let asked = Instant::now();
        server.set_faults(Faults::default());
        wait_until("it is published", SOON, || {
            (cluster.published("db").len() > known).then_some(())
        })
        .unwrap();
        let pause = asked.elapsed();
        assert!(
            pause > Duration::from_millis(2500),
            "{name}: it was asked after {pause:?} again\n{}",
            one.process.log()
        );
        assert_eq!(cluster.slice_writes(), before + 2, "{name}");
    }
}

#[test]
fn a_watch_that_has_to_begin_anew_in_the_middle_of_a_batch_loses_nothing() {
    let Some(cluster) = Cluster::new("workloads-gone") else {
        return;
    };
    let server = &cluster.server;
    server.put(definition(WORKLOADS, &["v1alpha1"]));
    let services: Vec<String> = (0..40).map(|number| format!("s{number:02}")).collect();
    for (number, name) in services.iter().enumerate() {
        server.put(selecting(name, &format!("10.96.1.{}", number + 1)));
    }
    let ip = |number: u32| format!("192.0.2.{}", number + 1);
    for number in 0..10 {
        server.put(workload(&format!("vm-{number}"), &ip(number)));
    }
    let one = cluster.start("one", 18_202);
    for round in 0..3_u32 {
        let before = cluster.slice_writes();
        // Each Service has other endpoints now.
        server.put(workload(&format!("new-{round}"), &ip(100 + round)));
        wait_until("it has begun", SOON, || {
            (cluster.slice_writes() > before + 5).then_some(())
        })
        .unwrap_or_else(|error| panic!("{round}: {error}\n{}", one.process.log()));
        // What is watched goes on after what is forgotten: 410. Meanwhile one is gone, which no watch reports.
        server.delete(&workload(&format!("vm-{round}"), ""));
        server.compact();
        server.cut();
    }
    let names = (3..10).map(|number| format!("vm-{number}"));
    let names = (0..3).map(|round| format!("new-{round}")).chain(names);
    let expected: Vec<(String, bool)> = names.map(|name| (name, true)).collect();
    for service in &services {
        wait_until("each is there once", Duration::from_secs(20), || {
            (cluster.published(service) == expected).then_some(())
        })
        .unwrap_or_else(|error| {
            let found = cluster.published(service);
            panic!("{service}: {error}: {found:?}\n{}", one.process.log())
        });
    }
    assert_eq!(ours(cluster.slices().iter()).count(), services.len());
    // Nothing is left to be done.
    let before = cluster.slice_writes();
    thread::sleep(Duration::from_secs(1));
    assert_eq!(cluster.slice_writes(), before, "{}", one.process.log());
}

/// Fails if an endpoint of these names is missing at any time after it was there.
fn never_missing(cluster: &Cluster, names: &BTreeSet<String>) {
    let mut slices: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (step, (before, after)) in cluster
        .server
        .history(Kind::EndpointSlice)
        .iter()
        .enumerate()
    {
        let name = |slice: &Value| slice["metadata"]["name"].to_string();
        if let Some(before) = before {
            slices.remove(&name(before));
        }
        if let Some(after) = after {
            let own = endpoints(after).map(|(name, _)| name);
            slices.insert(name(after), own.collect());
        }
        let present: BTreeSet<&String> = slices.values().flatten().collect();
        let missing: Vec<&String> = seen.iter().filter(|name| !present.contains(name)).collect();
        assert!(
            missing.is_empty(),
            "missing after change {step}: {missing:?}"
        );
        seen.extend(
            present
                .into_iter()
                .filter(|name| names.contains(*name))
                .cloned(),
        );
    }
    assert_eq!(seen, *names, "each was there at some time");
}

#[test]
fn two_controllers_that_both_write_lose_no_endpoint_and_leave_none_twice() {
    let Some(cluster) = Cluster::new("workloads-two") else {
        return;
    };
    let server = &cluster.server;
    server.put(definition(WORKLOADS, &["v1alpha1"]));
    server.put(selecting("db", "10.96.0.20"));
    let steady: BTreeSet<String> = (0..120)
        .map(|number| format!("steady-{number:03}"))
        .collect();
    for (number, name) in steady.iter().enumerate() {
        server.put(workload(name, &format!("192.0.2.{}", number + 1)));
    }
    // Each has a Lease of its own, so both lead.
    let one = cluster.start_with("one", 18_170, &["--lease-name", "one"]);
    let two = cluster.start_with("two", 18_172, &["--lease-name", "two"]);
    let end = Instant::now() + Duration::from_secs(by_length(8, 60));
    let mut round = 0_u32;
    while Instant::now() < end {
        round += 1;
        for number in 0..30 {
            let comes = workload(
                &format!("moving-{number:02}"),
                &format!("198.51.100.{}", number + 1),
            );
            match (round + number) % 3 {
                0 => server.delete(&comes),
                _ => server.put(comes),
            }
        }
        match round % 8 {
            3 | 5 => server.cut(),
            7 => server.put(with(
                selecting("db", "10.96.0.20"),
                "/spec/ports/0/name",
                if round % 16 == 7 { "other" } else { "http" },
            )),
            _ => {}
        }
        thread::sleep(Duration::from_millis(150));
    }
    for number in 0..30 {
        server.delete(&workload(&format!("moving-{number:02}"), ""));
    }
    let expected: Vec<(String, bool)> = steady.iter().map(|name| (name.clone(), true)).collect();
    wait_until("each is there once", Duration::from_secs(20), || {
        (cluster.published("db") == expected).then_some(())
    })
    .unwrap_or_else(|error| {
        panic!(
            "{error}: {:?}\n{}\n{}",
            cluster.published("db"),
            one.process.log(),
            two.process.log()
        )
    });
    never_missing(&cluster, &steady);
}

#[test]
fn the_next_leader_goes_on_in_the_middle_of_a_batch() {
    let Some(cluster) = Cluster::new("workloads-leader") else {
        return;
    };
    let server = &cluster.server;
    server.put(definition(WORKLOADS, &["v1alpha1"]));
    for number in 0..40 {
        server.put(selecting(
            &format!("s{number:02}"),
            &format!("10.96.1.{}", number + 1),
        ));
    }
    for number in 0..10 {
        server.put(workload(
            &format!("vm-{number}"),
            &format!("192.0.2.{}", number + 1),
        ));
    }
    let one = cluster.start("one", 18_180);
    wait_until("it has begun", SOON, || {
        (cluster.slice_writes() > 5).then_some(())
    })
    .unwrap();
    one.process.pause().unwrap();
    let two = cluster.start("two", 18_182);
    let all = |cluster: &Cluster| ours(cluster.slices().iter()).flat_map(endpoints).count();
    wait_until(
        "the other one has done the rest",
        Duration::from_secs(20),
        || (all(&cluster) >= 400).then_some(()),
    )
    .unwrap_or_else(|error| panic!("{error}: {}\n{}", all(&cluster), two.process.log()));
    // The first one wakes up with a queue that is not its own any more: what it was allowed to write when it
    // was stopped is all that it may still write, and that is mended.
    let before = cluster.slice_writes();
    one.process.go_on().unwrap();
    thread::sleep(Duration::from_secs(2));
    let mut each = BTreeSet::new();
    for number in 0..40 {
        let service = format!("s{number:02}");
        let found = cluster.published(&service).into_iter();
        each.extend(found.map(|(name, _)| (service.clone(), name)));
    }
    assert_eq!(
        (all(&cluster), each.len()),
        (400, 400),
        "{}",
        one.process.log()
    );
    let late = cluster.slice_writes() - before;
    assert!(
        late <= 16,
        "{late} writes of one that does not lead\n{}",
        one.process.log()
    );
    let lease = server.lease("kube-system", LEASE).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "two");
}
