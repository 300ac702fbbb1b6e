//! The frontends that a question is about, by their keys.

use crate::world::{World, by_name};

/// Services `web`, `old`, and `split`, which shares its connections out among them; `rival` claims what `web` has.
const CLUSTER: &str = r#"{"event":"Resync","node_ips":["192.168.16.10"],"services":[
    {"id":{"namespace":"default","name":"web"},"cluster_ips":["10.96.0.1","fd00::1"],"external_ips":["203.0.113.7"],
     "ports":{"http":{"protocol":"TCP","port":80,"node_port":30080},"dns":{"protocol":"UDP","port":53}},
     "backends":{"http":[{"ip":"10.1.1.3","port":8080},{"ip":"fd00:1::3","port":8080}],
                 "dns":[{"ip":"10.1.1.3","port":5353}]}},
    {"id":{"namespace":"default","name":"rival"},"external_ips":["203.0.113.7"],
     "ports":{"http":{"protocol":"TCP","port":80}},"backends":{"http":[{"ip":"10.1.1.9","port":8080}]}},
    {"id":{"namespace":"default","name":"split"},"cluster_ips":["10.96.0.2"],
     "ports":{"http":{"protocol":"TCP","port":80}},"backends":{"http":[]},
     "splits":{"http":{"mode":"strict","backends":[{"service":{"namespace":"default","name":"web"},"port":80,"weight":1}]}}}]}"#;

fn keys(world: &World, query: &shunt_model::Query) -> Vec<String> {
    let keys = world.renderer.keys_of(query).into_iter();
    keys.map(|key| key.to_string()).collect()
}

#[test]
fn a_frontend_is_found_by_its_address_its_service_and_its_backends() {
    let world = World::told(&[&CLUSTER.replace('\n', "")]);
    for (query, expected) in [
        // Whether any event leads there or not.
        (
            "10.96.0.1:81",
            &["10.96.0.1:81/SCTP", "10.96.0.1:81/TCP", "10.96.0.1:81/UDP"][..],
        ),
        ("10.96.0.1:80/tcp", &["10.96.0.1:80/TCP"]),
        ("10.96.0.1", &["10.96.0.1:53/UDP", "10.96.0.1:80/TCP"]),
        ("10.96.0.1/udp", &["10.96.0.1:53/UDP"]),
        ("10.96.0.9", &[]),
        (
            "10.1.1.3:8080/tcp",
            &[
                "10.1.1.3:8080/TCP",
                "10.96.0.1:80/TCP",
                "10.96.0.2:80/TCP",
                "192.168.16.10:30080/TCP",
                "203.0.113.7:80/TCP",
            ],
        ),
        ("10.1.1.3/udp", &["10.96.0.1:53/UDP", "203.0.113.7:53/UDP"]),
        ("fd00:1::3", &["[fd00::1]:80/TCP"]),
        // The other service has its only frontend.
        ("10.1.1.9", &[]),
    ] {
        assert_eq!(keys(&world, &query.parse().unwrap()), expected, "{query}");
    }
    let http = ["10.96.0.1:80/TCP", "203.0.113.7:80/TCP", "[fd00::1]:80/TCP"];
    assert_eq!(keys(&world, &by_name("web", Some(80))), http);
    assert_eq!(keys(&world, &by_name("web", None)).len(), 7);
    assert_eq!(keys(&world, &by_name("rival", None)).len(), 0);
    assert_eq!(keys(&world, &by_name("nobody", None)).len(), 0);
}
