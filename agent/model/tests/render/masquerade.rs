//! Masquerading of connections from outside to backends of this node.

use std::collections::BTreeSet;

use shunt_model::{Balancing, Masquerade, RenderOptions};

use crate::world::{World, add, resync, service};

const FIELDS: &str = r#""cluster_ips":["10.96.0.1"],"external_ips":["203.0.113.7"],"load_balancer_ips":["198.51.100.1"],"ports":{"http":{"protocol":"TCP","port":80,"node_port":30080}},"backends":{"http":[{"ip":"10.1.1.3","port":8080,"local":true}]}"#;

/// The frontends that are masqueraded, or would be, of the service with these fields besides.
fn masqueraded(default: bool, fields: &str) -> Vec<(String, Masquerade)> {
    let mut world = World::with_options(RenderOptions {
        node_ips: BTreeSet::from([[192, 168, 16, 10].into()]),
        balancing: Balancing {
            masquerade: default,
            ..Balancing::default()
        },
        ..RenderOptions::default()
    });
    world.tell(&resync(&["192.168.16.10", "192.168.16.20"], &[]));
    world.tell(&add(&service("web", &format!("{FIELDS}{fields}"))));
    let frontends = world.renderer.frontends();
    let found = frontends.filter(|(_, frontend)| frontend.masquerade != Masquerade::Off);
    found
        .map(|(key, frontend)| (key.address.to_string(), frontend.masquerade))
        .collect()
}

/// The frontends that clients elsewhere use.
fn external(masquerade: Masquerade) -> Vec<(String, Masquerade)> {
    ["192.168.16.10", "198.51.100.1", "203.0.113.7"]
        .map(|address| (address.to_owned(), masquerade))
        .into()
}

#[test]
fn the_service_decides_and_else_the_default() {
    let [on, off] = [r#","masquerade":true"#, r#","masquerade":false"#];
    for (default, fields, is_on) in [
        (false, "", false),
        (true, "", true),
        (false, on, true),
        (true, off, false),
    ] {
        let expected = if is_on {
            external(Masquerade::On)
        } else {
            Vec::new()
        };
        assert_eq!(masqueraded(default, fields), expected, "{default} {fields}");
    }
}

#[test]
fn under_policy_local_backends_see_their_clients() {
    assert_eq!(masqueraded(true, r#","traffic_policy":"Local""#), []);
}

#[test]
fn in_mode_dsr_it_has_no_effect_and_is_shown() {
    let found = masqueraded(true, r#","forwarding":"dsr""#);
    assert_eq!(found, external(Masquerade::NotInDsr));
}
