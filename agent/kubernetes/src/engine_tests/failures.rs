//! Events that the renderer refuses are tried again, and are shown as waiting meanwhile. Health does not depend on it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, Instant},
};

use serde_json::json;
use shunt_model::ServiceId;
use shunt_runtime::Consequences;

use super::world::{World, refused, service, slice, word};
use crate::{
    engine::{Change, Work},
    watch::step::Step,
};

const CREATED: &str = "2026-01-01T00:00:00Z";

fn web(name: &str) -> Change {
    Change::Service(service(name, CREATED, json!({})))
}

impl World {
    /// Lets the next event fail, and returns it.
    fn fail(&mut self) -> String {
        let Work { event, about, .. } = self.engine.next().unwrap();
        self.engine.done(about, refused("the table is full"));
        word(&event)
    }

    /// Since when the oldest change has waited, refused or not.
    fn waiting(&self) -> Option<Instant> {
        self.state().pending_since
    }

    /// Returns the number of services that are refused, as health sees it.
    fn refused(&self) -> u64 {
        let pending = self.reports.health().pending;
        assert_eq!(pending.oldest.v4, pending.oldest.v6);
        pending.refused
    }

    fn is_healthy_after(&self, since: Instant, seconds: u64) -> bool {
        let now = since + Duration::from_secs(seconds);
        self.reports.health().is_healthy(now)
    }
}

#[test]
fn a_change_that_fails_waits_from_its_first_failure_on() {
    let mut world = World::synced();
    world.engine.take(web("full"));
    world.fail();
    let first = world.waiting().unwrap();
    for _ in 0..3 {
        assert_eq!(world.state().pending, 1);
        world.engine.retry();
        world.engine.take(slice("full", "full-1", &["10.0.0.1"]));
        assert_eq!(world.state().pending, 1, "it is one service");
        assert_eq!(world.waiting(), Some(first));
        assert_eq!(world.fail(), "UpdateService default/full 10.0.0.1");
        assert_eq!(world.waiting(), Some(first));
    }
    // Another one that succeeds makes it no better.
    world.engine.take(web("other"));
    assert_eq!(world.events(), ["UpdateService default/other"]);
    assert_eq!(world.waiting(), Some(first));
    assert!(world.is_healthy_after(first, 10_000), "no restart cures it");
    assert_eq!(world.refused(), 1);
    world.engine.retry();
    assert_eq!(world.events().len(), 1);
    assert_eq!((world.waiting(), world.state().pending), (None, 0));
    assert_eq!(world.refused(), 0);
}

#[test]
fn a_service_that_gives_way_to_another_one_waits_until_it_fits_again() {
    let mut world = World::synced();
    for name in ["old", "new"] {
        world.engine.take(web(name));
    }
    let Work { about, .. } = world.engine.next().unwrap();
    world.engine.done(about, Ok(Consequences::default()));
    let Work { about, .. } = world.engine.next().unwrap();
    let refused = BTreeMap::from([(ServiceId::new("default", "old"), "no room".to_owned())]);
    let gives_way = Consequences {
        refused,
        ..Consequences::default()
    };
    world.engine.done(about, Ok(gives_way));
    let shown = &world.state().untranslated["default/old"];
    assert_eq!(*shown, ["it is left out: no room"]);
    assert_eq!((world.refused(), world.state().pending), (1, 1));
    assert_eq!(world.events(), [""; 0], "until the next try");
    world.engine.retry();
    assert_eq!(world.fail(), "UpdateService default/old");
    world.engine.retry();
    assert_eq!(world.events(), ["UpdateService default/old"]);
    assert_eq!(world.refused(), 0);
    let notice = world.notices.try_recv().unwrap();
    let words = "it is not translated: no room";
    assert!(notice.note.ends_with(words), "{}", notice.note);
    assert!(world.notices.try_recv().is_err(), "one for all tries");
}

#[test]
fn a_service_that_gives_way_to_node_addresses_waits_until_it_fits_again() {
    let mut world = World::synced();
    world.engine.take(web("web"));
    assert_eq!(world.events().len(), 1);
    world.engine.set_host_addresses(BTreeSet::new());
    let Work { event, about, .. } = world.engine.next().unwrap();
    assert_eq!(word(&event), "UpdateNodePortServices {}");
    let refused = BTreeMap::from([(ServiceId::new("default", "web"), "no room".to_owned())]);
    let gives_way = Consequences {
        refused,
        ..Consequences::default()
    };
    world.engine.done(about, Ok(gives_way));
    let shown = &world.state().untranslated["default/web"];
    assert_eq!(*shown, ["it is left out: no room"]);
    assert_eq!((world.refused(), world.state().pending), (1, 1));
    assert_eq!(
        world.events(),
        [""; 0],
        "the addresses took effect, and the Service waits for the next try"
    );
    world.engine.retry();
    assert_eq!(world.events(), ["UpdateService default/web"]);
    assert_eq!(world.refused(), 0);
}

#[test]
fn a_service_that_failed_and_is_gone_waits_no_longer() {
    let mut world = World::synced();
    world.engine.take(web("full"));
    world.fail();
    let Step::Applied(full) = service("full", CREATED, json!({})) else {
        unreachable!("it was applied");
    };
    world.engine.take(Change::Service(Step::Deleted(full)));
    assert_eq!(world.events(), [""; 0], "the renderer never had it");
    assert_eq!((world.waiting(), world.state().pending), (None, 0));
}

#[test]
fn a_first_resync_that_fails_waits_as_well() {
    let mut world = World::new();
    world.list_nothing();
    world.fail();
    let first = world.waiting().unwrap();
    assert!(world.engine.next().is_none(), "it is put off");
    world.engine.retry();
    world.fail();
    assert_eq!(world.waiting(), Some(first));
    assert!(world.is_healthy_after(first, 10_000), "no restart cures it");
    world.engine.retry();
    assert_eq!(world.events().len(), 1);
    assert_eq!(world.waiting(), None);
}

#[test]
fn a_change_that_nobody_has_taken_is_late() {
    let mut world = World::synced();
    world.engine.take(web("web"));
    let first = world.waiting().unwrap();
    assert!(world.is_healthy_after(first, 59));
    assert!(!world.is_healthy_after(first, 60));
}

#[test]
fn services_go_on_while_addresses_that_failed_wait_for_the_next_try() {
    let mut world = World::synced();
    world.engine.take(web("web"));
    assert_eq!(world.events().len(), 1);
    // The host has lost the node's address.
    let elsewhere: [IpAddr; 1] = [[192, 0, 2, 9].into()];
    world.engine.set_host_addresses(elsewhere.into());
    let addresses = "UpdateNodePortServices {}";
    assert_eq!(world.fail(), addresses);
    let first = world.waiting().unwrap();
    // What makes room.
    let Step::Applied(gone) = service("web", CREATED, json!({})) else {
        unreachable!("it was applied");
    };
    world.engine.take(Change::Service(Step::Deleted(gone)));
    assert_eq!(world.events(), ["DeleteService default/web"]);
    assert_eq!(world.waiting(), Some(first));
    world.engine.retry();
    assert_eq!(world.fail(), addresses);
    assert_eq!(world.waiting(), Some(first));
    // As they were before.
    let back: [IpAddr; 1] = [[192, 0, 2, 1].into()];
    world.engine.set_host_addresses(back.into());
    assert_eq!(world.events(), [""; 0]);
    assert_eq!(world.waiting(), None);
    world.engine.set_host_addresses(elsewhere.into());
    assert_eq!(world.events(), [addresses]);
}

#[test]
fn a_service_that_needs_more_than_there_can_be_is_refused_until_it_changes() {
    let mut world = World::with(|options| options.limits.frontends = 2);
    world.list_nothing();
    world.events();
    let web = |external: &[&str]| {
        Change::Service(service("web", CREATED, json!({ "externalIPs": external })))
    };
    world.engine.take(web(&["192.0.2.7"]));
    assert_eq!(world.events(), ["UpdateService default/web"]);
    world.engine.take(web(&["192.0.2.7", "192.0.2.8"]));
    assert_eq!(
        world.events(),
        ["DeleteService default/web"],
        "as after a restart"
    );
    let shown = |world: &World| world.state().untranslated.get("default/web").cloned();
    assert!(shown(&world).is_some_and(|reasons| reasons[0].contains("--max-frontends")));
    assert_eq!((world.refused(), world.state().pending), (1, 0));
    world.engine.retry();
    assert_eq!(world.events(), [""; 0], "nothing is tried again");
    assert_eq!(world.refused(), 1);
    world.engine.take(web(&[]));
    assert_eq!(world.events(), ["UpdateService default/web"]);
    assert_eq!((world.refused(), shown(&world)), (0, None));
}

#[test]
fn of_many_problems_of_a_service_the_first_are_shown() {
    let mut world = World::synced();
    let bad: Vec<String> = (0..1000).map(|number| format!("bad-{number}")).collect();
    let web = service("web", CREATED, json!({ "externalIPs": bad }));
    world.engine.take(Change::Service(web));
    world.events();
    let shown = world.state().untranslated["default/web"].clone();
    assert_eq!(shown.len(), 21);
    assert_eq!(shown[20], "and 980 more");
}
