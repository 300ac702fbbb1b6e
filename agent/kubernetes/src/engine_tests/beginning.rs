//! The first event, which has everything in it.

use std::time::{Duration, Instant};

use serde_json::json;

use super::world::{World, refused, service};
use crate::{
    engine::{About, Change, Work},
    objects::custom::CustomKind,
    routes::change::RouteChange,
    watch::step::{List, Step, UnreadableObjects},
};

#[test]
fn nothing_is_told_before_all_first_lists_are_there() {
    let mut world = World::new();
    world.engine.take(Change::Service(service(
        "late",
        "2026-01-02T00:00:00Z",
        json!({}),
    )));
    world.engine.take(Change::Service(service(
        "early",
        "2026-01-01T00:00:00Z",
        json!({}),
    )));
    world.define(&[]);
    for change in [
        Change::EndpointSlice(Step::listed(Vec::new())),
        Change::Node(Step::listed(Vec::new())),
        Change::ServiceCidr(Step::Lost("away".into())),
        Change::Service(Step::Lost("away".into())),
    ] {
        world.engine.take(change);
        assert_eq!(world.events(), [] as [&str; 0]);
    }
    assert!(!world.state().connected);
    let list = ["late", "early"].map(|name| {
        let created = if name == "late" {
            "2026-01-02T00:00:00Z"
        } else {
            "2026-01-01T00:00:00Z"
        };
        match service(name, created, json!({})) {
            Step::Applied(service) => service,
            other => panic!("{other:?}"),
        }
    });
    world
        .engine
        .take(Change::Service(Step::listed(list.into())));
    assert_eq!(
        world.events(),
        [] as [&str; 0],
        "the ranges are not there yet"
    );
    world
        .engine
        .take(Change::ServiceCidr(Step::Absent("404".into())));
    // The older first, so that it has what both want. A node of which nothing is known is open.
    let expected = ["Resync default/early default/late {192.0.2.1, 192.0.2.9}"];
    assert_eq!(world.events(), expected);
    let state = world.state();
    assert!(state.connected && state.synced && !state.node.found);
    assert_eq!((state.services, state.service_cidrs), (2, None));
}

#[test]
fn a_resync_that_fails_is_tried_again_with_what_is_known_then() {
    let mut world = World::new();
    world.list_nothing();
    let Work { about, .. } = world.engine.next().unwrap();
    assert!(matches!(about, About::All { .. }));
    world.engine.take(Change::Service(service(
        "web",
        "2026-01-01T00:00:00Z",
        json!({}),
    )));
    world.engine.done(about, refused("no room"));
    assert_eq!(world.events(), [""; 0], "not at once");
    world.engine.retry();
    assert_eq!(
        world.events(),
        ["Resync default/web {192.0.2.1, 192.0.2.9}"]
    );
}

#[test]
fn the_first_event_waits_for_routes_where_the_cluster_has_some() {
    let mut world = World::new();
    world.list_nothing();
    world.define(&[CustomKind::TcpRoute, CustomKind::ReferenceGrant]);
    assert_eq!(world.events(), [""; 0]);
    let listed = RouteChange::TcpRoute(Step::listed(Vec::new()));
    world.engine.take(Change::Route(listed));
    assert_eq!(world.events(), [""; 0]);
    assert!(!world.state().connected);
    let listed = RouteChange::ReferenceGrant(Step::listed(Vec::new()));
    world.engine.take(Change::Route(listed));
    assert_eq!(world.events().len(), 1);
    assert!(world.state().connected);
}

#[test]
fn a_server_that_does_not_say_what_is_defined_is_followed_without_routes() {
    let mut world = World::new();
    for change in [
        Change::Service(Step::listed(Vec::new())),
        Change::EndpointSlice(Step::listed(Vec::new())),
        Change::ServiceCidr(Step::Absent("404".into())),
        Change::Node(Step::listed(Vec::new())),
    ] {
        world.engine.take(change);
    }
    assert_eq!(world.events(), [""; 0]);
    let forbidden = RouteChange::Definition(Step::Absent("403".into()));
    world.engine.take(Change::Route(forbidden));
    assert_eq!(world.events().len(), 1);
    assert!(world.state().connected);
}

#[test]
fn kinds_that_only_refine_the_first_event_hold_it_back_for_a_while() {
    let mut world = World::new();
    world.define(&[CustomKind::TcpRoute]);
    let lost = RouteChange::TcpRoute(Step::Lost("500".into()));
    world.engine.take(Change::Route(lost));
    assert_eq!(world.engine.waits_until(), None, "for Services too");
    world.list_nothing();
    world.define(&[CustomKind::TcpRoute]);
    world.engine.take(Change::Service(service(
        "web",
        "2026-01-01T00:00:00Z",
        json!({}),
    )));
    let until = world.engine.waits_until().unwrap();
    let soon = until.saturating_duration_since(Instant::now());
    assert!(
        soon > Duration::from_secs(20) && soon <= Duration::from_secs(30),
        "{soon:?}"
    );
    world.engine.begins_over_pinned_tables();
    assert_eq!(
        world.engine.waits_until(),
        Some(until + Duration::from_secs(270))
    );
    assert_eq!(world.events(), [""; 0]);
    world.engine.stop_waiting();
    assert_eq!(world.engine.waits_until(), None);
    assert_eq!(
        world.events(),
        ["Resync default/web {192.0.2.1, 192.0.2.9}"]
    );
    assert!(!world.state().connected, "its status names it");
    let listed = RouteChange::TcpRoute(Step::listed(Vec::new()));
    world.engine.take(Change::Route(listed));
    assert!(world.state().connected);
}

#[test]
fn what_is_listed_unreadable_stays_as_it_was() {
    let mut world = World::new();
    world.list_nothing();
    let web = || service("web", "2026-01-01T00:00:00Z", json!({}));
    world.engine.take(Change::Service(web()));
    assert_eq!(world.events().len(), 1);
    let unreadable = ["default/web".to_owned()].into();
    let list = Step::Listed(List::new(Vec::new(), unreadable));
    world.engine.take(Change::Service(list));
    assert_eq!(world.events(), [""; 0]);
    let shown = UnreadableObjects {
        count: 2,
        first: vec![("default/web".into(), "spec: no".into())],
    };
    world.engine.take(Change::Service(Step::Unreadable(shown)));
    let state = world.state();
    assert_eq!((state.unreadable, state.services), (2, 1));
    let object = &state.first_unreadable[0];
    assert_eq!((object.kind, &*object.name), ("Services", "default/web"));
    world.engine.take(Change::Service(Step::listed(Vec::new())));
    assert_eq!(world.events(), ["DeleteService default/web"]);
}
