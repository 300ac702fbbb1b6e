//! The backend of a split that takes all connections in mode `first`, as its rendering chose it.

use shunt_model::{Query, ServiceTarget, Who};

use crate::world::{World, by_name};

/// A service of two ports, `http` (80) and `alt` (81), with these endpoints, and with this split of `http`.
fn service(name: &str, cluster_ips: &str, http: &str, alt: &str, split: &str) -> String {
    format!(
        r#"{{"event":"AddService","service":{{"id":{{"namespace":"default","name":"{name}"}},"cluster_ips":[{cluster_ips}],"ports":{{"http":{{"protocol":"TCP","port":80}},"alt":{{"protocol":"TCP","port":81}}}},"backends":{{"http":[{http}],"alt":[{alt}]}},"splits":{{{split}}}}}}}"#
    )
}

/// A service `web` that has this split of mode `first`.
fn web(backends: &str) -> String {
    let split = format!(r#""http":{{"mode":"first","backends":[{backends}]}}"#);
    service("web", r#""10.96.0.1","fd00::1""#, "", "", &split)
}

fn backend(name: &str, port: u16) -> String {
    format!(r#"{{"service":{{"namespace":"default","name":"{name}"}},"port":{port},"weight":1}}"#)
}

fn first(world: &World, query: &Query) -> Option<usize> {
    let answer = world.renderer.lookup(query);
    let mut targets = answer.targets.into_iter();
    match targets.find(|target| target.in_use)?.who {
        Who::Service(ServiceTarget { first, .. }) => first,
        other => panic!("{other:?}"),
    }
}

/// The chosen backend at each address of `web`, and by its name.
fn chosen(world: &World) -> [Option<usize>; 3] {
    let at = |text: &str| first(world, &text.parse().unwrap());
    [
        at("10.96.0.1:80"),
        at("[fd00::1]:80"),
        first(world, &by_name("web", Some(80))),
    ]
}

const RESYNC: &str = r#"{"event":"Resync","node_ips":[],"services":[]}"#;
const ENDPOINT: &str = r#"{"ip":"10.1.1.1","port":8080}"#;

#[test]
fn backends_that_share_endpoints_are_distinguished() {
    let not_ready = r#"{"ip":"10.1.1.1","port":8080,"state":"NotReady"}"#;
    let backends = [backend("old", 80), backend("new", 80)].join(",");
    let mut world = World::told(&[
        RESYNC,
        &service("old", r#""10.96.0.2""#, not_ready, "", ""),
        &service("new", r#""10.96.0.3""#, ENDPOINT, "", ""),
        &web(&backends),
    ]);
    assert_eq!(chosen(&world), [Some(1), None, Some(1)]);
    world.tell(&service("old", r#""10.96.0.2""#, ENDPOINT, "", ""));
    assert_eq!(chosen(&world), [Some(0), None, Some(0)]);
    world.tell(r#"{"event":"DeleteService","id":{"namespace":"default","name":"new"}}"#);
    world.tell(&service("old", r#""10.96.0.2""#, "", "", ""));
    assert_eq!(chosen(&world), [None; 3]);
}

#[test]
fn the_ports_of_one_service_are_distinguished() {
    let backends = [backend("other", 80), backend("other", 81)].join(",");
    let mut world = World::told(&[
        RESYNC,
        &service("other", r#""10.96.0.2","fd00::2""#, "", ENDPOINT, ""),
        &web(&backends),
    ]);
    assert_eq!(chosen(&world), [Some(1), None, Some(1)]);
    let both = format!(r#"{ENDPOINT},{{"ip":"fd01::1","port":8080}}"#);
    world.tell(&service("other", r#""10.96.0.2","fd00::2""#, "", &both, ""));
    assert_eq!(chosen(&world), [Some(1); 3]);
    let ipv6 = r#"{"ip":"fd01::2","port":8080}"#;
    world.tell(&service(
        "other",
        r#""10.96.0.2","fd00::2""#,
        ipv6,
        &both,
        "",
    ));
    assert_eq!(
        chosen(&world),
        [Some(1), Some(0), Some(0)],
        "each family by itself"
    );
}

#[test]
fn other_modes_choose_no_backend() {
    let split = format!(
        r#""http":{{"mode":"available","backends":[{}]}}"#,
        backend("web", 80)
    );
    let web = service("web", r#""10.96.0.1","fd00::1""#, ENDPOINT, "", &split);
    assert_eq!(chosen(&World::told(&[RESYNC, &web])), [None; 3]);
}
