//! Changes after the first event are sent, each service by itself.

use serde_json::json;
use shunt_runtime::Consequences;

use super::world::{World, node, refused, service, slice, word};
use crate::{
    engine::{Change, Work},
    watch::step::Step,
};

#[test]
fn a_service_and_its_slices_come_in_any_order() {
    let mut world = World::synced();
    world.engine.take(slice("web", "web-1", &["10.0.0.1"]));
    assert_eq!(world.events(), [] as [&str; 0], "a slice alone is nothing");
    world.engine.take(Change::Service(service(
        "web",
        "2026-01-01T00:00:00Z",
        json!({}),
    )));
    assert_eq!(world.events(), ["UpdateService default/web 10.0.0.1"]);
    world.engine.take(slice("web", "web-2", &["10.0.0.2"]));
    assert_eq!(
        world.events(),
        ["UpdateService default/web 10.0.0.1 10.0.0.2"]
    );
    // A slice that goes over to another service.
    world.engine.take(slice("other", "web-1", &["10.0.0.1"]));
    assert_eq!(world.events(), ["UpdateService default/web 10.0.0.2"]);
    let Step::Applied(web) = service("web", "2026-01-01T00:00:00Z", json!({})) else {
        unreachable!("it was applied");
    };
    world.engine.take(Change::Service(Step::Deleted(web)));
    assert_eq!(world.events(), ["DeleteService default/web"]);
    assert_eq!(
        (world.state().services, world.state().endpoint_slices),
        (0, 2)
    );
}

#[test]
fn what_changes_while_an_event_is_on_its_way_is_one_event() {
    let mut world = World::synced();
    world.engine.take(Change::Service(service(
        "web",
        "2026-01-01T00:00:00Z",
        json!({}),
    )));
    let Work { event, about, .. } = world.engine.next().unwrap();
    assert_eq!(word(&event), "UpdateService default/web");
    for last in 1..=9 {
        world
            .engine
            .take(slice("web", "web-1", &[&format!("10.0.0.{last}")]));
    }
    assert_eq!(world.state().pending, 1);
    assert!(world.state().pending_since.is_some());
    world.engine.done(about, Ok(Consequences::default()));
    assert_eq!(world.events(), ["UpdateService default/web 10.0.0.9"]);
    assert_eq!(
        (world.state().pending, world.state().pending_since),
        (0, None)
    );
}

#[test]
fn what_changes_nothing_is_not_told() {
    let mut world = World::synced();
    let web = |spec| Change::Service(service("web", "2026-01-01T00:00:00Z", spec));
    world.engine.take(web(json!({})));
    world
        .engine
        .take(slice("web", "web-1", &["10.0.0.1", "10.0.0.2"]));
    assert_eq!(world.events().len(), 1);
    world
        .engine
        .take(web(json!({ "selector": { "app": "x" } })));
    world
        .engine
        .take(slice("web", "web-1", &["10.0.0.2", "10.0.0.1"]));
    world.engine.take(slice("web", "web-2", &["10.0.0.1"]));
    world
        .engine
        .take(Change::Node(node("here", "b", "192.0.2.1")));
    world.engine.take(Change::Service(Step::Alive));
    assert_eq!(world.events(), [] as [&str; 0]);
    // There and away again.
    world.engine.take(slice("web", "web-2", &["10.0.0.3"]));
    world.engine.take(slice("web", "web-2", &["10.0.0.1"]));
    assert_eq!(world.events(), [] as [&str; 0]);
}

#[test]
fn a_list_anew_is_told_as_what_differs() {
    let mut world = World::synced();
    for name in ["a", "b", "c"] {
        world.engine.take(Change::Service(service(
            name,
            "2026-01-01T00:00:00Z",
            json!({}),
        )));
    }
    assert_eq!(world.events().len(), 3);
    world
        .engine
        .take(Change::Service(Step::Lost("cut off".into())));
    assert_eq!(
        world.events(),
        [] as [&str; 0],
        "a server that is away changes nothing"
    );
    let state = world.state();
    assert_eq!(
        (state.connected, state.trouble.as_deref()),
        (false, Some("cut off"))
    );
    let list = [
        ("late", "2026-01-03T00:00:00Z", json!({})),
        ("a", "2026-01-01T00:00:00Z", json!({})),
        (
            "b",
            "2026-01-01T00:00:00Z",
            json!({ "clusterIP": "10.96.0.2" }),
        ),
        ("early", "2026-01-02T00:00:00Z", json!({})),
    ];
    let list = list.map(|(name, created, spec)| match service(name, created, spec) {
        Step::Applied(service) => service,
        other => panic!("{other:?}"),
    });
    world
        .engine
        .take(Change::Service(Step::listed(list.into())));
    let expected = [
        "DeleteService default/c",
        "UpdateService default/b",
        "UpdateService default/early",
        "UpdateService default/late",
    ];
    assert_eq!(world.events(), expected);
    assert!(world.state().connected);
}

#[test]
fn an_event_that_fails_is_tried_again() {
    let mut world = World::synced();
    world.engine.take(Change::Service(service(
        "web",
        "2026-01-01T00:00:00Z",
        json!({}),
    )));
    let Work { about, .. } = world.engine.next().unwrap();
    world.engine.done(about, refused("the table is full"));
    assert_eq!(world.events(), [] as [&str; 0]);
    let state = world.state();
    assert_eq!(state.pending, 1);
    assert_eq!(
        state.untranslated["default/web"],
        ["its last change: the table is full"]
    );
    world.engine.retry();
    assert_eq!(world.events(), ["UpdateService default/web"]);
    assert_eq!(world.state().untranslated.len(), 0);
    // A service that the renderer has already is sent again only if the renderer may have something else.
    world.engine.take(slice("web", "web-1", &["10.0.0.1"]));
    let Work { about, .. } = world.engine.next().unwrap();
    world.engine.done(about, refused("the table is full"));
    world.engine.take(slice("web", "web-1", &[]));
    assert_eq!(world.events(), ["UpdateService default/web"]);
}

#[test]
fn other_services_are_told_while_an_event_is_under_way_and_the_same_one_is_not() {
    let mut world = World::synced();
    for name in ["wide", "web"] {
        let service = service(name, "2026-01-01T00:00:00Z", json!({}));
        world.engine.take(Change::Service(service));
    }
    let told = [(); 2].map(|()| world.engine.next().unwrap());
    let words = told.each_ref().map(|work| word(&work.event));
    let expected = ["UpdateService default/wide", "UpdateService default/web"];
    assert_eq!(words, expected);
    assert!(world.engine.next().is_none());
    let [wide, web] = told.map(|work| work.about);
    world.engine.done(web, Ok(Consequences::default()));
    world.engine.take(slice("wide", "wide-1", &["10.0.0.1"]));
    world.engine.take(slice("web", "web-1", &["10.0.0.2"]));
    assert_eq!(world.events(), ["UpdateService default/web 10.0.0.2"]);
    // It is again what it was before the event that is under way.
    world.engine.take(slice("wide", "wide-1", &[]));
    assert_eq!(world.events(), [] as [&str; 0]);
    assert_eq!(world.state().pending, 1);
    world.engine.take(slice("wide", "wide-1", &["10.0.0.3"]));
    world.engine.done(wide, Ok(Consequences::default()));
    assert_eq!(world.events(), ["UpdateService default/wide 10.0.0.3"]);
    assert_eq!(world.state().pending, 0);
}

#[test]
fn what_is_about_all_services_is_told_alone() {
    let mut world = World::synced();
    for name in ["wide", "web"] {
        let service = service(name, "2026-01-01T00:00:00Z", json!({}));
        world.engine.take(Change::Service(service));
    }
    let wide = world.engine.next().unwrap().about;
    let moved = node("here", "a", "192.0.2.9");
    world.engine.take(Change::Node(moved));
    assert!(world.engine.next().is_none(), "after what is under way");
    world.engine.done(wide, Ok(Consequences::default()));
    let Work { event, about, .. } = world.engine.next().unwrap();
    assert!(word(&event).starts_with("UpdateNodePortServices"));
    assert!(world.engine.next().is_none(), "before what is told next");
    world.engine.done(about, Ok(Consequences::default()));
    assert_eq!(world.events(), ["UpdateService default/web"]);
}
