//! One of several controllers writes, and another one takes over.

use std::{thread, time::Duration};

use serde_json::{Value, json};
use shunt_tests::{Faults, wait_until};

use crate::{
    controller::{Cluster, LEASE, NAMESPACE},
    route_objects::{backend, tcp_route},
    world::SOON,
};

#[test]
fn one_of_two_writes_and_the_other_takes_over() {
    let Some(cluster) = Cluster::new("controller-election") else {
        return;
    };
    let r = |weight: u32| tcp_route("r", 1, &[backend("v1", weight)]);
    let one = cluster.start("one", 18_110);
    cluster.await_holder("one");
    let two = cluster.start("two", 18_112);
    two.await_ready(&cluster);
    cluster.server.put(r(1));
    cluster.await_reasons(&r(1), &["Accepted@1 ResolvedRefs@1"]);
    one.await_written(&cluster, 1);
    assert_eq!(two.written(&cluster), 0);
    assert_eq!(one.metric(&cluster, "shunt_controller_leader"), 1);
    assert_eq!(two.metric(&cluster, "shunt_controller_leader"), 0);

    // The one that writes is suspended: the other one takes over.
    one.process.pause().unwrap();
    cluster.await_holder("two");
    cluster.server.put(r(2));
    cluster.await_reasons(&r(2), &["Accepted@2 ResolvedRefs@2"]);
    // It wakes up, believes for a moment that it leads, and writes nothing.
    cluster.server.put(r(3));
    one.process.go_on().unwrap();
    cluster.await_reasons(&r(3), &["Accepted@3 ResolvedRefs@3"]);
    wait_until("it learns of it", SOON, || {
        (one.metric(&cluster, "shunt_controller_leader") == 0).then_some(())
    })
    .unwrap();
    assert_eq!(one.written(&cluster), 1);
    assert_eq!(cluster.holder().as_deref(), Some("two"));
    // One that ends frees the Lease.
    assert!(two.process.stop().unwrap().success());
    cluster.await_holder("one");
    cluster.server.put(r(4));
    cluster.await_reasons(&r(4), &["Accepted@4 ResolvedRefs@4"]);
    // One that is killed leaves it to its end.
    let three = cluster.start("three", 18_114);
    three.await_ready(&cluster);
    one.process.kill().unwrap();
    cluster.await_holder("three");
}

#[test]
fn one_that_lost_its_lease_writes_nothing_and_a_lease_that_is_removed_is_made_anew() {
    let Some(cluster) = Cluster::new("controller-lost") else {
        return;
    };
    let one = cluster.start("one", 18_120);
    cluster.await_holder("one");
    // Another one has taken it, for an hour from now on.
    let mut lease = cluster.server.lease(NAMESPACE, LEASE).unwrap();
    lease["spec"]["holderIdentity"] = "another".into();
    lease["spec"]["leaseDurationSeconds"] = 3600.into();
    cluster.server.set_lease(NAMESPACE, LEASE, Some(lease));
    let r = tcp_route("r", 1, &[backend("v1", 1)]);
    cluster.server.put(r.clone());
    let left = "shunt_controller_statuses_total{result=\"not_leading\"}";
    wait_until("it asks before it writes", Duration::from_secs(10), || {
        let knows = one.metric(&cluster, "shunt_controller_leader") == 0;
        (knows || one.metric(&cluster, left) > 0).then_some(())
    })
    .unwrap();
    wait_until("it knows", SOON, || {
        (one.metric(&cluster, "shunt_controller_leader") == 0).then_some(())
    })
    .unwrap();
    assert_eq!((cluster.writes(), cluster.reasons(&r)), (0, vec![]));
    cluster.server.set_lease(NAMESPACE, LEASE, None);
    cluster.await_holder("one");
    cluster.await_reasons(&r, &["Accepted@1 ResolvedRefs@1"]);
}

#[test]
fn an_answer_about_the_lease_that_does_not_come_is_not_waited_for() {
    let Some(cluster) = Cluster::new("controller-held") else {
        return;
    };
    let one = cluster.start("one", 18_130);
    cluster.await_holder("one");
    let renewed = || cluster.server.lease(NAMESPACE, LEASE).unwrap()["spec"]["renewTime"].clone();
    cluster.server.set_faults(Faults {
        holds_leases: true,
        ..Faults::default()
    });
    wait_until("it stops to write", Duration::from_secs(4), || {
        (one.metric(&cluster, "shunt_controller_leader") == 0).then_some(())
    })
    .unwrap();
    cluster.server.set_faults(Faults::default());
    let before = renewed();
    wait_until("the Lease is renewed", 2 * SOON, || {
        (renewed() != before).then_some(())
    })
    .unwrap();
    cluster.await_holder("one");
}

#[test]
fn one_that_ends_hands_over_at_once() {
    let Some(cluster) = Cluster::new("controller-handover") else {
        return;
    };
    // With the default durations.
    let mut leader = cluster.start_as_deployed("leader-0", 18_250, &[]);
    cluster.await_holder("leader-0");
    for number in 1_u16..4 {
        let name = format!("leader-{number}");
        let next = cluster.start_as_deployed(&name, 18_250 + 2 * number, &[]);
        next.await_ready(&cluster);
        assert!(leader.process.stop().unwrap().success());
        wait_until("the next one leads", Duration::from_secs(2), || {
            (cluster.holder()? == name).then_some(())
        })
        .unwrap_or_else(|error| panic!("{error}\n{}", next.process.log()));
        let r = tcp_route("r", 1, &[backend("v1", number.into())]);
        cluster.server.put(r.clone());
        cluster.await_reasons(&r, &[&format!("Accepted@{number} ResolvedRefs@{number}")]);
        leader = next;
    }
    let spec = &cluster.server.lease(NAMESPACE, LEASE).unwrap()["spec"];
    assert_eq!(spec["leaseTransitions"], 3);
}

/// A Lease of a holder with this clock.
fn held_by(holder: &str, seconds: u32, renewed: &str) -> Value {
    json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": { "namespace": NAMESPACE, "name": LEASE },
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": seconds, "leaseTransitions": 7,
            "acquireTime": renewed, "renewTime": renewed,
        },
    })
}

#[test]
fn the_clock_of_a_dead_holder_is_of_no_account() {
    let Some(cluster) = Cluster::new("controller-ahead") else {
        return;
    };
    let dead = held_by("dead", 3, "2999-01-01T00:00:00.000000Z");
    cluster.server.set_lease(NAMESPACE, LEASE, Some(dead));
    let _one = cluster.start("one", 18_260);
    cluster.await_holder("one");
    let spec = &cluster.server.lease(NAMESPACE, LEASE).unwrap()["spec"];
    assert_eq!(spec["leaseTransitions"], 8);
}

#[test]
fn a_holder_that_renews_its_lease_keeps_it_however_late_its_clock_is() {
    let Some(cluster) = Cluster::new("controller-behind") else {
        return;
    };
    let renew = |number: u32| {
        let time = format!("2001-01-01T00:00:00.{number:06}Z");
        let lease = held_by("late", 3, &time);
        cluster.server.set_lease(NAMESPACE, LEASE, Some(lease));
    };
    renew(0);
    let one = cluster.start("one", 18_262);
    one.await_ready(&cluster);
    // Longer than the Lease lasts.
    for number in 1..20 {
        renew(number);
        thread::sleep(Duration::from_millis(250));
        assert_eq!(
            cluster.holder().as_deref(),
            Some("late"),
            "{}",
            one.process.log()
        );
    }
    // It renews it no more.
    cluster.await_holder("one");
}
