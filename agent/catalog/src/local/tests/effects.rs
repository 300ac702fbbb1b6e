//! The effects of changes on others.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::world::{World, check, deregister, register};
use crate::local::state::{
    effects::Effects,
    register::Change,
    registry::Verdict,
    status::Status::{Critical, Passing, Warning},
};

fn web() -> serde_json::Value {
    json!({ "Name": "web", "Port": 80, "Check": { "TTL": "10s" } })
}

#[test]
fn what_is_the_same_concerns_nobody() {
    let mut world = World::default();
    let first = world.change(&register(web()));
    assert!(first.changed.contains("web") && first.concerned.contains("web"));
    assert_eq!(world.change(&register(web())), Effects::default());
    let mut changed = web();
    changed["Port"] = json!(81);
    let effects = world.change(&register(changed));
    assert!(effects.changed.contains("web") && effects.concerned.contains("web"));
    let gone = world.change(&deregister("web"));
    assert!(gone.changed.contains("web") && gone.concerned.contains("web"));
    assert_eq!(world.change(&deregister("web")), Effects::default());
}

#[test]
fn health_is_no_content_and_an_output_is_nobodys_affair() {
    let mut world = World::default();
    world.change(&register(web()));
    let id = "service:web";
    let effects = world.tell(id, Passing);
    assert!(
        effects.changed.is_empty(),
        "who waits for the content goes on waiting"
    );
    assert!(effects.concerned.contains("web") && effects.has_status);
    let now = Instant::now();
    let effects = world.registry.tell(id, Passing, "another output", now);
    assert_eq!(effects, Effects::default());
    assert_eq!(world.health(id).1, "another output");
    assert_eq!(world.tell("nobody", Critical), Effects::default());
}

#[test]
fn a_proxy_concerns_the_frontends_of_its_service() {
    let mut world = World::default();
    let effects = world.change(&register(json!({
        "Name": "web", "Port": 80, "Connect": { "SidecarService": {} },
    })));
    let concerned: Vec<_> = effects.concerned.iter().collect();
    assert_eq!(concerned, ["web", "web-sidecar-proxy"]);
    let effects = world.tell("service:web-sidecar-proxy:1", Passing);
    assert!(effects.concerned.contains("web"));
}

#[test]
fn the_worst_check_is_the_verdict_and_maintenance_is_worse() {
    let mut world = World::default();
    let verdict = |world: &World| world.registry.verdict("web");
    world.change(&register(json!({ "Name": "web" })));
    assert_eq!(verdict(&world), Verdict::Checked(Passing));
    for (id, status) in [("a", Passing), ("b", Warning), ("c", Critical)] {
        world.change(&check(
            json!({ "Name": id, "ServiceID": "web", "TTL": "1s" }),
        ));
        world.tell(id, status);
        assert_eq!(verdict(&world), Verdict::Checked(status));
    }
    world.change(&Change::Maintenance {
        service: "web".to_owned(),
        reason: Some(String::new()),
    });
    assert_eq!(verdict(&world), Verdict::Maintenance);
    let notes = &world.check("_service_maintenance:web").notes;
    assert!(notes.starts_with("Maintenance mode is enabled"), "{notes}");
    world.change(&Change::Maintenance {
        service: "web".to_owned(),
        reason: None,
    });
    assert_eq!(verdict(&world), Verdict::Checked(Critical));
    let effects = world.change(&Change::NodeMaintenance(Some("all".to_owned())));
    assert!(effects.concerned.contains("web"));
    assert_eq!(verdict(&world), Verdict::Maintenance);
}

#[test]
fn a_check_that_nobody_tells_of_is_critical_in_time() {
    let mut world = World::default();
    world.change(&register(web()));
    let id = "service:web";
    let began = Instant::now();
    let at = |seconds| began + Duration::from_secs(seconds);
    world.registry.tell(id, Passing, "", at(0));
    assert_eq!(world.registry.expire(at(9)), Effects::default());
    world.registry.tell(id, Passing, "", at(9));
    assert_eq!(world.registry.next_expiry(), Some(at(19)));
    assert_eq!(world.registry.expire(at(18)), Effects::default());
    assert_eq!(world.health(id).0, Passing);
    let effects = world.registry.expire(at(19));
    assert!(effects.concerned.contains("web") && effects.has_status);
    assert_eq!(world.health(id), (Critical, "TTL expired".to_owned()));
    assert_eq!(
        world.registry.next_expiry(),
        None,
        "until somebody tells again"
    );
    world.registry.tell(id, Passing, "", at(20));
    assert_eq!(world.registry.next_expiry(), Some(at(30)));
}

#[test]
fn a_service_that_is_critical_for_too_long_is_overdue() {
    let mut world = World::default();
    let mut value = web();
    value["Check"]["DeregisterCriticalServiceAfter"] = json!("2m");
    let before = Instant::now();
    world.change(&register(value));
    let after = Instant::now();
    let allowed = Duration::from_mins(2);
    let early = before + allowed - Duration::from_secs(1);
    assert!(world.registry.overdue(early, |_| true).is_empty());
    world.registry.tell("service:web", Critical, "again", early);
    let overdue = world.registry.overdue(after + allowed, |_| true);
    assert!(
        overdue.contains("web"),
        "it was critical from the beginning"
    );
    world.registry.tell("service:web", Warning, "", early);
    assert!(world.registry.overdue(after + allowed, |_| true).is_empty());
}

#[test]
fn a_check_keeps_its_status_over_a_registration() {
    let mut world = World::default();
    world.change(&register(web()));
    world.tell("service:web", Passing);
    let mut changed = web();
    changed["Check"]["TTL"] = json!("20s");
    world.change(&register(changed));
    assert_eq!(world.health("service:web").0, Passing);
}
