//! Circumstances of an event: the times of its triggers, and health checks.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use shunt_runtime::{HealthCheck, HealthCheckChange, IpFamily, Trigger};

use super::world::{World, service, slice_of};
use crate::{engine::Change, watch::step::Step};

/// The annotation of a slice whose change goes back to this time.
fn at(time: SystemTime) -> Value {
    let time = humantime::format_rfc3339_nanos(time).to_string();
    json!({ "endpoints.kubernetes.io/last-change-trigger-time": time })
}

#[test]
fn an_event_says_when_that_happened_which_led_to_it() {
    let mut world = World::synced();
    let web = service("web", "2026-01-01T00:00:00Z", json!({}));
    world.engine.take(Change::Service(web));
    assert_eq!(world.events().len(), 1);
    let old = SystemTime::now() - Duration::from_hours(1);
    let new = SystemTime::now();
    let triggers = [Trigger {
        family: IpFamily::V4,
        at: new,
    }];
    for (addresses, annotations, expected) in [
        (&["10.0.0.1"][..], json!({}), &[][..]),
        (&["10.0.0.2"], at(old), &[]),
        (&["10.0.0.3"], at(new), &triggers),
        // The annotation is that of an earlier change.
        (&["10.0.0.4"], at(new), &[]),
    ] {
        let slice = slice_of("web", "web-1", addresses, annotations);
        world
            .engine
            .take(Change::EndpointSlice(Step::Applied(slice)));
        assert_eq!(world.events().len(), 1, "{addresses:?}");
        assert_eq!(world.circumstances.triggers, expected, "{addresses:?}");
    }
}

#[test]
fn slices_that_come_before_their_service_keep_their_time() {
    let mut world = World::synced();
    let new = SystemTime::now();
    let after = |seconds| new + Duration::from_secs(seconds);
    for (name, address, seconds) in [
        ("web-1", "10.0.0.1", 0),
        ("web-1", "10.0.0.2", 1),
        ("web-2", "10.0.0.3", 2),
    ] {
        let slice = slice_of("web", name, &[address], at(after(seconds)));
        world
            .engine
            .take(Change::EndpointSlice(Step::Applied(slice)));
        assert_eq!(world.events(), [] as [&str; 0]);
    }
    let web = || service("web", "2026-01-01T00:00:00Z", json!({}));
    world.engine.take(Change::Service(web()));
    assert_eq!(world.events().len(), 1);
    let trigger = |seconds| Trigger {
        family: IpFamily::V4,
        at: after(seconds),
    };
    // Of the first slice only the last change counts: the one before could not be sent.
    assert_eq!(world.circumstances.triggers, [1, 2].map(trigger));
    // They are of no news when the Service comes back.
    let Step::Applied(gone) = web() else {
        unreachable!();
    };
    for step in [Step::Deleted(gone), web()] {
        world.engine.take(Change::Service(step));
        assert_eq!(world.events().len(), 1);
        assert_eq!(world.circumstances.triggers, []);
    }
}

#[test]
fn health_checks_come_with_the_event_of_the_same_state() {
    let mut world = World::synced();
    let balanced = |port: u16| {
        let spec = json!({
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": port,
        });
        Change::Service(service("web", "2026-01-01T00:00:00Z", spec))
    };
    let check = |port: u16, local_endpoints| {
        let check = HealthCheck {
            port: port.try_into().unwrap(),
            local_endpoints,
        };
        HealthCheckChange::Of(shunt_model::ServiceId::new("default", "web"), Some(check))
    };
    world.engine.take(balanced(32_000));
    assert_eq!(world.events().len(), 1);
    assert_eq!(world.circumstances.health_checks, check(32_000, 0));
    let mut pods = slice_of("web", "web-1", &["10.0.0.1"], json!({}));
    pods.endpoints[0].node = Some("here".into());
    world
        .engine
        .take(Change::EndpointSlice(Step::Applied(pods)));
    assert_eq!(world.events().len(), 1);
    assert_eq!(world.circumstances.health_checks, check(32_000, 1));
    // Nothing is translated otherwise, and yet it is sent.
    world.engine.take(balanced(32_001));
    assert_eq!(world.events().len(), 1);
    assert_eq!(world.circumstances.health_checks, check(32_001, 1));
    let addresses = world.reports.health_checks().borrow().addresses.clone();
    assert_eq!(addresses, [[192, 0, 2, 1].into()].into());
}
