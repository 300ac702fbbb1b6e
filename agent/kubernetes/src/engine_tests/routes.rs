//! Changes of routes concern the services that they name, and no others.

use serde_json::{Value, json};
use shunt_model::{RendererEvent, SplitTarget};
use shunt_runtime::Consequences;

use super::world::{World, service};
use crate::{
    engine::{Change, Work},
    objects::{custom::CustomKind, reference_grant::ReferenceGrant, route::Route},
    routes::change::RouteChange,
    watch::step::Step,
};

/// Returns a world whose cluster defines all kinds, with these services, all of which were sent.
fn world(services: &[&str]) -> World {
    let mut world = World::synced();
    world.define(&CustomKind::ROUTES);
    for change in [
        RouteChange::TcpRoute(Step::listed(Vec::new())),
        RouteChange::UdpRoute(Step::listed(Vec::new())),
        RouteChange::ReferenceGrant(Step::listed(Vec::new())),
        RouteChange::TrafficSplit(Step::listed(Vec::new())),
        RouteChange::ServiceProfile(Step::listed(Vec::new())),
    ] {
        world.engine.take(Change::Route(change));
    }
    for name in services {
        let service = service(name, "2026-01-01T00:00:00Z", json!({}));
        world.engine.take(Change::Service(service));
    }
    assert_eq!(world.events().len(), services.len());
    world
}

fn route(name: &str, parent: &str, backend: &Value) -> Route {
    serde_json::from_value(json!({
        "metadata": { "namespace": "default", "name": name },
        "spec": {
            "parentRefs": [{ "group": "", "kind": "Service", "name": parent }],
            "rules": [{ "backendRefs": [backend] }],
        },
    }))
    .unwrap()
}

fn tcp(step: Step<Route>) -> Change {
    Change::Route(RouteChange::TcpRoute(step))
}

/// Returns the services that are sent now, each with the targets of its split.
fn told(world: &mut World) -> Vec<String> {
    let mut told = Vec::new();
    while let Some(Work { event, about, .. }) = world.engine.next() {
        let RendererEvent::UpdateService(service) = event else {
            panic!("{event:?}");
        };
        let splits = service.ports.iter().filter_map(|port| port.split.as_ref());
        let targets = splits.flat_map(|split| &split.backends);
        let targets = targets.map(|backend| match &backend.target {
            SplitTarget::Service { id, port } => format!(" {id}:{port}"),
            SplitTarget::Invalid { .. } => " refused".to_owned(),
            SplitTarget::Address { .. } => panic!("{backend:?}"),
        });
        told.push(format!(
            "{}{}",
            service.id.name,
            targets.collect::<String>()
        ));
        world.engine.done(about, Ok(Consequences::default()));
    }
    told
}

#[test]
fn a_route_concerns_its_parents() {
    let mut world = world(&["web", "api", "other"]);
    let (to_web, to_api) = (
        json!({ "name": "v1", "port": 80 }),
        json!({ "name": "v2", "port": 80 }),
    );
    world
        .engine
        .take(tcp(Step::Applied(route("r", "web", &to_web))));
    assert_eq!(told(&mut world), ["web default/v1:80"]);
    // The same again is nothing new.
    world
        .engine
        .take(tcp(Step::Applied(route("r", "web", &to_web))));
    assert_eq!(told(&mut world), [""; 0]);
    // What changes while an event is on its way is one event.
    for port in 1..=9 {
        let backend = json!({ "name": "v1", "port": port });
        world
            .engine
            .take(tcp(Step::Applied(route("r", "web", &backend))));
    }
    assert_eq!(told(&mut world), ["web default/v1:9"]);
    // It goes over to another service.
    world
        .engine
        .take(tcp(Step::Applied(route("r", "api", &to_api))));
    let mut both = told(&mut world);
    both.sort();
    assert_eq!(both, ["api default/v2:80", "web"]);
    world
        .engine
        .take(tcp(Step::Deleted(route("r", "api", &to_api))));
    assert_eq!(told(&mut world), ["api"]);
    // A service that is not there is not sent, and has its split when it comes.
    let missing = route("r", "missing", &json!({ "name": "v1", "port": 80 }));
    world.engine.take(tcp(Step::Applied(missing)));
    assert_eq!(told(&mut world), [""; 0]);
    let service = service("missing", "2026-01-01T00:00:00Z", json!({}));
    world.engine.take(Change::Service(service));
    assert_eq!(told(&mut world), ["missing default/v1:80"]);
}

#[test]
fn a_grant_concerns_the_parents_of_routes_that_need_it() {
    let mut world = world(&["web", "api"]);
    let across = json!({ "namespace": "backends", "name": "v1", "port": 80 });
    world
        .engine
        .take(tcp(Step::Applied(route("r", "web", &across))));
    let near = json!({ "name": "v1", "port": 80 });
    world
        .engine
        .take(tcp(Step::Applied(route("s", "api", &near))));
    let mut both = told(&mut world);
    both.sort();
    assert_eq!(both, ["api default/v1:80", "web refused"]);
    let grant: ReferenceGrant = serde_json::from_value(json!({
        "metadata": { "namespace": "backends", "name": "g" },
        "spec": {
            "from": [{
                "group": "gateway.networking.k8s.io", "kind": "TCPRoute", "namespace": "default",
            }],
            "to": [{ "group": "", "kind": "Service" }],
        },
    }))
    .unwrap();
    let granted = RouteChange::ReferenceGrant(Step::Applied(grant.clone()));
    world.engine.take(Change::Route(granted));
    assert_eq!(told(&mut world), ["web backends/v1:80"]);
    let taken = RouteChange::ReferenceGrant(Step::Deleted(grant));
    world.engine.take(Change::Route(taken));
    assert_eq!(told(&mut world), ["web refused"]);
}

#[test]
fn a_kind_that_is_not_defined_any_more_leaves_nothing_behind() {
    let mut world = world(&["web"]);
    let r = route("r", "web", &json!({ "name": "v1", "port": 80 }));
    world.engine.take(tcp(Step::Applied(r.clone())));
    assert_eq!(told(&mut world), ["web default/v1:80"]);
    // A server that is away, or that takes the right to look, changes nothing.
    for step in [Step::Lost("away".into()), Step::Absent("403".into())] {
        world.engine.take(tcp(step));
        assert_eq!(told(&mut world), [""; 0]);
    }
    world.define(&[CustomKind::UdpRoute]);
    assert_eq!(told(&mut world), ["web"]);
    // What was on its way comes too late.
    world.engine.take(tcp(Step::Applied(r.clone())));
    assert_eq!(told(&mut world), [""; 0]);
    world.define(&CustomKind::ROUTES);
    assert!(!world.state().connected, "they are not listed yet");
    world.engine.take(tcp(Step::listed(vec![r])));
    assert_eq!(told(&mut world), ["web default/v1:80"]);
}
