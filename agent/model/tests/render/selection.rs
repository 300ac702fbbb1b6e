//! Selection by frontends: by the service's choice, and by the default.

use crate::world::{World, add, resync, service};

const FIELDS: &str = r#""cluster_ips":["10.96.0.1"],"external_ips":["203.0.113.7"],
    "load_balancer_ips":["198.51.100.1"],"ports":{"http":{"protocol":"TCP","port":80,"node_port":30080}},
    "backends":{"http":[{"ip":"10.1.1.3","port":8080,"local":true},{"ip":"10.1.2.3","port":8080}]}"#;

/// The frontends of the service with these fields besides.
fn expect(mut world: World, fields: &str, frontends: &[&str]) {
    let service = service("web", &format!("{}{fields}", FIELDS.replace('\n', "")));
    world.tell(&resync(&["192.168.16.10"], &[]));
    world.tell(&add(&service));
    world.expect(frontends);
}

#[test]
fn a_service_says_it_of_all_its_frontends() {
    expect(
        World::new(),
        r#","selection":"maglev","session_affinity_timeout":60"#,
        &[
            "10.96.0.1:80/TCP ClusterIP Cluster affinity=60 maglev=4093 default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
            "192.168.16.10:30080/TCP NodePort Cluster affinity=60 maglev=4093 default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
            "198.51.100.1:80/TCP LoadBalancerIP Cluster affinity=60 maglev=4093 default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
            "203.0.113.7:80/TCP ExternalIP Cluster affinity=60 maglev=4093 default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
        ],
    );
}

#[test]
fn the_default_is_of_external_frontends_and_local_backends_count_as_others_then() {
    expect(
        World::with_maglev(),
        "",
        &[
            "10.96.0.1:80/TCP ClusterIP Cluster default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
            "192.168.16.10:30080/TCP NodePort Cluster maglev=65521 default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
            "198.51.100.1:80/TCP LoadBalancerIP Cluster maglev=65521 default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
            "203.0.113.7:80/TCP ExternalIP Cluster maglev=65521 default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
        ],
    );
}

#[test]
fn a_service_may_say_otherwise_and_then_local_backends_count_more() {
    expect(
        World::with_maglev(),
        r#","selection":"weighted""#,
        &[
            "10.96.0.1:80/TCP ClusterIP Cluster default/web: 10.1.1.3:8080*2 local, 10.1.2.3:8080*1",
            "192.168.16.10:30080/TCP NodePort Cluster default/web: 10.1.1.3:8080*2 local, 10.1.2.3:8080*1",
            "198.51.100.1:80/TCP LoadBalancerIP Cluster default/web: 10.1.1.3:8080*2 local, 10.1.2.3:8080*1",
            "203.0.113.7:80/TCP ExternalIP Cluster default/web: 10.1.1.3:8080*2 local, 10.1.2.3:8080*1",
        ],
    );
}

#[test]
fn a_change_of_the_selection_changes_the_frontends() {
    let mut world = World::new();
    world.tell(&resync(&["192.168.16.10"], &[]));
    let with = |fields: &str| service("web", &format!("{}{fields}", FIELDS.replace('\n', "")));
    world.tell(&add(&with("")));
    let outcome = world.tell(&add(&with(r#","selection":"maglev""#)));
    assert_eq!(outcome.counts(), (0, 4, 0));
    let outcome = world.tell(&add(&with(r#","selection":"maglev""#)));
    assert_eq!(outcome.counts(), (0, 0, 0));
}

#[test]
fn the_entries_of_tables_are_known_before_a_service_is_rendered() {
    let entries = |world: &World, fields: &str| {
        let service = service("web", &format!("{}{fields}", FIELDS.replace('\n', "")));
        let event = shunt_model::decode(&add(&service)).unwrap();
        world.renderer.maglev_entries(&event)
    };
    let (random, maglev) = (World::new(), World::with_maglev());
    assert_eq!(entries(&random, ""), 0);
    assert_eq!(entries(&random, r#","selection":"maglev""#), 4093);
    assert_eq!(entries(&maglev, ""), 65_521);
    assert_eq!(entries(&maglev, r#","selection":"weighted""#), 0);
}
