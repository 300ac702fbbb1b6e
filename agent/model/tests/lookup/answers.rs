//! The owners of an address.

use shunt_model::{ServiceId, TargetKind};

use crate::world::{World, by_name, target};

/// Two services that share an external IP, one of two protocols, and what else runs.
const CLUSTER: &str = r#"{"event":"Resync","node_ips":["192.168.16.10","192.168.16.20"],
  "nodes":{"node-a":["192.168.16.10"],"node-b":["192.168.16.20"]},
  "services":[
    {"id":{"namespace":"default","name":"web"},
     "cluster_ips":["10.96.0.1"],"external_ips":["203.0.113.7"],"load_balancer_ips":["198.51.100.1"],
     "ports":{"http":{"protocol":"TCP","port":80,"node_port":30080}},
     "backends":{"http":[{"ip":"10.1.1.3","port":8080,"local":true}]}},
    {"id":{"namespace":"default","name":"rival"},"external_ips":["203.0.113.7","192.168.16.20"],
     "ports":{"http":{"protocol":"TCP","port":80},"alt":{"protocol":"TCP","port":8080}}},
    {"id":{"namespace":"default","name":"dns"},"cluster_ips":["10.96.0.10"],
     "ports":{"udp":{"protocol":"UDP","port":53},"tcp":{"protocol":"TCP","port":53}},
     "backends":{"udp":[{"ip":"10.1.1.3","port":5353}],"tcp":[{"ip":"10.1.1.3","port":5353,"state":"NotReady"}]}}],
  "workloads":[
    {"id":{"kind":"Pod","namespace":"default","name":"old"},"ips":["10.1.1.3"],"phase":"Terminating"},
    {"id":{"kind":"Pod","namespace":"default","name":"web-1"},"ips":["10.1.1.3","fd00:1::3"],
     "host_ports":[{"ip":"192.168.16.10","port":53,"protocol":"UDP"}]},
    {"id":{"kind":"Pod","namespace":"default","name":"tcp-53"},
     "host_ports":[{"ip":"192.168.16.10","port":53,"protocol":"TCP"}]},
    {"id":{"kind":"Pod","namespace":"default","name":"shadowed"},
     "host_ports":[{"ip":"192.168.16.10","port":30080,"protocol":"TCP"}]},
    {"id":{"kind":"ExternalWorkload","namespace":"default","name":"vm"},"ips":["172.16.0.1","fd00:2::1"],
     "ports":[{"name":"http","port":80,"protocol":"TCP"}]}]}"#;

fn cluster() -> World {
    let mut world = World::told(&[&CLUSTER.replace('\n', "")]);
    let port = std::num::NonZeroU16::new(31000);
    let id = ServiceId::new("default", "web");
    assert!(world.renderer.set_health_check_port(id.clone(), port));
    assert!(!world.renderer.set_health_check_port(id, port), "again");
    world
}

#[test]
fn an_address_belongs_to_the_first_that_fits() {
    let world = cluster();
    for (query, expected) in [
        ("10.96.0.1:80/tcp", &["ClusterIP default/web http"][..]),
        ("10.96.0.1:80", &["ClusterIP default/web http"]),
        ("10.96.0.1", &["ClusterIP default/web http"]),
        ("198.51.100.1:80", &["LoadBalancerIP default/web http"]),
        // The older claim has it, for every query.
        (
            "203.0.113.7:80",
            &[
                "ExternalIP default/web http",
                "ExternalIP default/rival http?",
            ],
        ),
        (
            "203.0.113.7",
            &[
                "ExternalIP default/web http",
                "ExternalIP default/rival alt",
                "ExternalIP default/rival http?",
            ],
        ),
        (
            "10.96.0.10:53",
            &["ClusterIP default/dns tcp", "ClusterIP default/dns udp"],
        ),
        ("10.96.0.10:53/udp", &["ClusterIP default/dns udp"]),
        // A node's address at a port that only the node has.
        ("192.168.16.20:22", &["Node node-b"]),
        ("192.168.16.10:22/udp", &["Node node-a own"]),
        (
            "192.168.16.20:30080",
            &["NodePort default/web http", "Node node-b?"],
        ),
        (
            "192.168.16.10:30080/tcp",
            &[
                "NodePort default/web http",
                "HostPort default/shadowed?",
                "Node node-a own?",
            ],
        ),
        (
            "192.168.16.10:31000",
            &["HealthCheckNodePort default/web 31000", "Node node-a own?"],
        ),
        ("192.168.16.10:31000/udp", &["Node node-a own"]),
        // Two pods with one host port are two, where the protocols differ.
        (
            "192.168.16.10:53/udp",
            &["HostPort default/web-1", "Node node-a own?"],
        ),
        (
            "192.168.16.10:53/tcp",
            &["HostPort default/tcp-53", "Node node-a own?"],
        ),
        (
            "192.168.16.10:53",
            &[
                "HostPort default/tcp-53",
                "HostPort default/web-1",
                "Node node-a own?",
            ],
        ),
        // A pod that runs comes before one that ends, at every port.
        ("10.1.1.3:1", &["Pod default/web-1", "Pod default/old?"]),
        ("fd00:1::3", &["Pod default/web-1"]),
        ("172.16.0.1:80", &["ExternalWorkload default/vm"]),
        ("[fd00:2::1]:80/tcp", &["ExternalWorkload default/vm"]),
        ("172.16.0.1", &["ExternalWorkload default/vm"]),
        ("172.16.0.1:81", &[]),
        ("172.16.0.1:80/udp", &[]),
        // A port that no service declares is not the same as an address without an owner.
        ("10.96.0.1:81", &["UndefinedPort default/web"]),
        ("10.96.0.1:80/udp", &["UndefinedPort default/web"]),
        ("10.96.0.1/udp", &["UndefinedPort default/web"]),
        (
            "203.0.113.7:81",
            &["UndefinedPort default/web", "UndefinedPort default/rival?"],
        ),
        ("10.96.0.2:80", &[]),
        ("::ffff:10.96.0.1", &["ClusterIP default/web http"]),
    ] {
        assert_eq!(world.targets(query), expected, "{query}");
    }
}

#[test]
fn the_kind_of_an_answer_is_that_of_who_has_it() {
    let world = cluster();
    for (query, kind, exists) in [
        ("10.96.0.1:80", TargetKind::ClusterIp, true),
        ("10.96.0.1:81", TargetKind::UndefinedPort, false),
        ("10.96.0.2", TargetKind::Unknown, false),
        ("10.1.1.3", TargetKind::Pod, true),
        ("192.168.16.20:22", TargetKind::Node, true),
    ] {
        let answer = world.ask(query);
        assert_eq!((answer.kind(), answer.exists()), (kind, exists), "{query}");
    }
}

#[test]
fn an_address_is_known_by_the_services_that_it_is_behind() {
    let world = cluster();
    for (query, expected) in [
        (
            "10.1.1.3",
            &[
                "default/dns tcp not ready",
                "default/dns udp ready",
                "default/web http ready",
            ][..],
        ),
        ("10.1.1.3:8080", &["default/web http ready"]),
        ("10.1.1.3:5353/udp", &["default/dns udp ready"]),
        ("10.1.1.3:1", &[]),
        ("10.96.0.1:80", &[]),
    ] {
        assert_eq!(world.member_of(query), expected, "{query}");
    }
}

#[test]
fn a_service_is_found_by_its_name_and_port() {
    let world = cluster();
    for (name, port, expected) in [
        ("web", Some(80), &["ClusterIP default/web http"][..]),
        ("web", Some(81), &["UndefinedPort default/web"]),
        // Another has its frontend.
        ("rival", Some(80), &["ExternalIP default/rival http"]),
        (
            "dns",
            None,
            &["ClusterIP default/dns tcp", "ClusterIP default/dns udp"],
        ),
        ("none", Some(80), &[]),
    ] {
        let answer = world.renderer.lookup(&by_name(name, port));
        let targets: Vec<_> = answer.targets.iter().map(target).collect();
        assert_eq!(targets, expected, "{name} {port:?}");
    }
}

#[test]
fn what_is_gone_is_nobodys_and_what_waited_has_it() {
    let mut world = cluster();
    world.tell(r#"{"event":"UpdateWorkloads","workloads":[],"gone":[{"kind":"Pod","namespace":"default","name":"web-1"},{"kind":"Pod","namespace":"default","name":"never"}]}"#);
    assert_eq!(world.targets("10.1.1.3:1"), ["Pod default/old"]);
    assert_eq!(world.targets("fd00:1::3"), [""; 0]);
    world.tell(r#"{"event":"DeleteService","id":{"namespace":"default","name":"web"}}"#);
    assert_eq!(world.targets("10.96.0.1:80"), [""; 0]);
    assert_eq!(
        world.targets("203.0.113.7:80"),
        ["ExternalIP default/rival http"]
    );
    assert_eq!(world.member_of("10.1.1.3:8080"), [""; 0]);
    world.tell(r#"{"event":"UpdateNodes","nodes":{"node-c":["192.168.16.20"]}}"#);
    assert_eq!(world.targets("192.168.16.20:22"), ["Node node-c"]);
    assert_eq!(world.targets("192.168.16.10:22"), ["Node - own"]);
    world.tell(r#"{"event":"Resync","node_ips":[],"services":[]}"#);
    for query in ["172.16.0.1:80", "203.0.113.7:80", "192.168.16.20"] {
        assert_eq!(world.targets(query), [""; 0], "{query}");
    }
    let checks = world.renderer.set_health_check_ports([].into());
    assert!(checks, "web's is gone");
}
