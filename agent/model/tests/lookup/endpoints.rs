//! The endpoints behind an address.

use crate::world::{World, by_name, endpoint};

fn service(policies: &str, backends: &str) -> String {
    let service = format!(
        r#"{{"id":{{"namespace":"default","name":"web"}},"cluster_ips":["10.96.0.1","fd00::1"],
            "external_ips":["203.0.113.7"],{policies}
            "ports":{{"http":{{"protocol":"TCP","port":80,"node_port":30080}},"alt":{{"protocol":"TCP","port":81}}}},
            "backends":{{"http":[{backends}]}}}}"#
    );
    format!(r#"{{"event":"AddService","service":{service}}}"#).replace('\n', "")
}

const RESYNC: &str = r#"{"event":"Resync","node_ips":["192.168.16.10"],"services":[],"workloads":[{"id":{"kind":"Pod","namespace":"default","name":"pod-a"},"ips":["10.1.1.1"]}]}"#;

#[test]
fn all_endpoints_are_shown_with_what_they_are_used_for() {
    let backends = r#"
        {"ip":"10.1.1.1","port":8080,"local":true},
        {"ip":"10.1.2.2","port":8080,"weight":0},
        {"ip":"10.1.2.3","port":8080,"state":"NotReady"},
        {"ip":"10.1.2.4","port":8080,"state":"Terminating","serving":true},
        {"ip":"10.1.2.5","port":8080,"state":"Terminating"},
        {"ip":"fd01::1","port":8080}"#;
    let world = World::told(&[RESYNC, &service("", backends)]);
    let v4 = [
        "80 10.1.1.1:8080 ready new pod-a",
        "80 10.1.2.2:8080 ready open",
        "80 10.1.2.3:8080 not ready none",
        "80 10.1.2.4:8080 serving open",
        "80 10.1.2.5:8080 terminating open",
    ];
    let v6 = ["80 fd01::1:8080 ready new"];
    assert_eq!(world.endpoints("10.96.0.1:80"), v4);
    assert_eq!(world.endpoints("10.96.0.1"), v4);
    assert_eq!(world.endpoints("10.96.0.1:81"), [""; 0]);
    assert_eq!(world.endpoints("[fd00::1]:80"), v6);
    let port = v4.map(|text| text.replacen("80", "30080", 1));
    assert_eq!(world.endpoints("192.168.16.10:30080/tcp"), port);
    let named = world.renderer.lookup(&by_name("web", Some(80)));
    let named: Vec<_> = named.endpoints.iter().map(endpoint).collect();
    assert_eq!(named, [&v4[..], &v6[..]].concat(), "both families");
}

#[test]
fn terminating_endpoints_are_used_where_nothing_else_is_left() {
    let backends = r#"
        {"ip":"10.1.1.1","port":8080,"state":"Terminating","serving":true},
        {"ip":"10.1.2.5","port":8080,"state":"Terminating"}"#;
    let world = World::told(&[RESYNC, &service("", backends)]);
    let expected = [
        "80 10.1.1.1:8080 serving new pod-a",
        "80 10.1.2.5:8080 terminating open",
    ];
    assert_eq!(world.endpoints("10.96.0.1:80"), expected);
}

#[test]
fn a_policy_says_which_endpoints_are_used_from_where() {
    let backends = r#"
        {"ip":"10.1.1.1","port":8080,"local":true},
        {"ip":"10.1.2.2","port":8080},
        {"ip":"10.1.2.3","port":8080,"scopes":[]}"#;
    let local = r#""traffic_policy":"Local","#;
    let world = World::told(&[RESYNC, &service(local, backends)]);
    let expected = [
        "80 10.1.1.1:8080 ready new pod-a",
        "80 10.1.2.2:8080 ready none(new)",
        "80 10.1.2.3:8080 ready none",
    ];
    assert_eq!(world.endpoints("203.0.113.7:80"), expected);
    let cluster_ip = [
        "80 10.1.1.1:8080 ready new pod-a",
        "80 10.1.2.2:8080 ready new",
        "80 10.1.2.3:8080 ready none",
    ];
    assert_eq!(world.endpoints("10.96.0.1:80"), cluster_ip);
}

#[test]
fn a_service_that_waits_for_its_frontend_has_unused_endpoints() {
    let mut world = World::told(&[RESYNC, &service("", r#"{"ip":"10.1.1.1","port":8080}"#)]);
    world.tell(r#"{"event":"AddService","service":{"id":{"namespace":"default","name":"rival"},"cluster_ips":["10.96.0.1"],"ports":{"http":{"protocol":"TCP","port":80}},"backends":{"http":[{"ip":"10.1.2.2","port":8080}]}}}"#);
    let expected = ["80 10.1.1.1:8080 ready new pod-a"];
    assert_eq!(world.endpoints("10.96.0.1:80"), expected, "the holder's");
    let rival = world.renderer.lookup(&by_name("rival", Some(80)));
    let rival: Vec<_> = rival.endpoints.iter().map(endpoint).collect();
    assert_eq!(rival, ["80 10.1.2.2:8080 ready none"]);
}
