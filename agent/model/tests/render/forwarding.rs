//! Forwarding of packets from outside to backends on other nodes, and what has to be known for it.

use std::fmt::Write as _;

use crate::world::{World, add, resync, service};

const FIELDS: &str = r#""cluster_ips":["10.96.0.1"],"external_ips":["203.0.113.7"],
    "ports":{"http":{"protocol":"TCP","port":80,"node_port":30080}}"#;

const NODES: &str = r#"{"event":"UpdateNodes","nodes":{"a":["192.168.16.10"],"b":["192.168.16.20","2001:db8:16::20"],"c":["192.168.16.30"]}}"#;

/// The service in this mode, with a backend here and some elsewhere, by address and node.
fn web(name: &str, forwarding: &str, elsewhere: &[(&str, &str)]) -> String {
    let mut backends = r#"{"ip":"10.1.1.3","port":8080,"local":true,"node":"a"}"#.to_owned();
    for (ip, node) in elsewhere {
        write!(backends, r#",{{"ip":"{ip}","port":8080,"node":"{node}"}}"#).unwrap();
    }
    service(
        name,
        &format!(
            r#"{}{forwarding},"backends":{{"http":[{backends}]}}"#,
            FIELDS.replace('\n', "")
        ),
    )
}

const DSR: &str = r#","forwarding":"dsr""#;

fn world() -> World {
    let mut world = World::new();
    world.tell(&resync(&["192.168.16.10", "192.168.16.20"], &[]));
    world
}

#[test]
fn frontends_for_clients_outside_have_this_nodes_backends_besides() {
    let mut world = world();
    world.tell(&add(&web("web", DSR, &[("10.1.2.3", "b")])));
    world.expect(&[
        "10.96.0.1:80/TCP ClusterIP Cluster default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
        "192.168.16.10:30080/TCP NodePort Cluster dsr default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1; here 10.1.1.3:8080*1 local",
        "192.168.16.20:30080/TCP NodePort Cluster this-node default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
        "203.0.113.7:80/TCP ExternalIP Cluster dsr default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1; here 10.1.1.3:8080*1 local",
    ]);
    let outcome = world.tell(&add(&web("web", "", &[("10.1.2.3", "b")])));
    assert_eq!(outcome.counts(), (0, 2, 0));
}

#[test]
fn under_policy_local_no_packet_goes_to_another_node() {
    let mut world = world();
    let local = format!(r#"{DSR},"traffic_policy":"Local""#);
    world.tell(&add(&web("web", &local, &[("10.1.2.3", "b")])));
    assert!(!world.frontends().iter().any(|text| text.contains(" dsr ")));
    assert_eq!(world.located(), [""; 0]);
}

#[test]
fn frontends_have_their_draining_backends_besides() {
    let mut world = world();
    let elsewhere = |fields: &str| {
        let backend = r#"{"ip":"10.1.2.3","port":8080,"node":"b"}"#;
        let draining = format!(r#"{{"ip":"10.1.2.3","port":8080,"node":"b",{fields}}}"#);
        let both = [("10.1.2.3", "b"), ("10.1.3.3", "c")];
        let web = web("web", DSR, &both);
        assert!(web.contains(backend));
        add(&web.replace(backend, &draining))
    };
    let external = |world: &World| {
        let frontends = world.frontends();
        let external = frontends.iter().find(|text| text.contains("ExternalIP"));
        external.unwrap().split_once(": ").unwrap().1.to_owned()
    };
    let [here, b, c] = ["10.1.1.3:8080*1 local", "10.1.2.3:8080", "10.1.3.3:8080*1"];
    let all = format!("{here}, {b}*1, {c}");
    world.tell(&elsewhere(r#""weight":1"#));
    assert_eq!(external(&world), format!("{all}; here {here}"));
    for drained in [
        r#""state":"Terminating""#,
        r#""state":"Terminating","serving":true"#,
        r#""weight":0"#,
    ] {
        world.tell(&elsewhere(drained));
        assert_eq!(
            external(&world),
            format!("{here}, {b}*0, {c}; here {here}; draining {all}"),
            "{drained}"
        );
    }
    world.tell(&elsewhere(r#""state":"NotReady""#));
    assert_eq!(
        external(&world),
        format!("{here}, {c}; here {here}; draining {all}")
    );
    let others = world.frontends();
    let draining = others.iter().filter(|text| text.contains("draining"));
    let dsr = others.iter().filter(|text| text.contains(" dsr "));
    assert_eq!(draining.count(), dsr.count(), "the others go by connection");
}

#[test]
fn endpoints_elsewhere_are_where_their_node_is() {
    let nodes = [
        "192.168.16.10 at 192.168.16.10",
        "192.168.16.20 at 192.168.16.20",
        "192.168.16.30 at 192.168.16.30",
        "2001:db8:16::20 at 2001:db8:16::20",
    ];
    let expect = |world: &World, more: &[&str]| {
        let mut all = [more, &nodes].concat();
        all.sort_unstable();
        let mut located = world.located();
        located.sort_unstable();
        assert_eq!(located, all);
    };
    let mut world = world();
    let elsewhere = [("10.1.2.3", "b"), ("10.1.3.3", "c"), ("10.1.4.3", "d")];
    world.tell(&add(&web("web", DSR, &elsewhere)));
    assert_eq!(world.located(), [""; 0]);
    assert_eq!(world.renderer.unlocated().len(), 3);

    world.tell(NODES);
    let [b, c] = ["10.1.2.3 at 192.168.16.20", "10.1.3.3 at 192.168.16.30"];
    expect(&world, &[b, c]);
    assert_eq!(world.renderer.unlocated().len(), 1, "nobody knows d");

    // Of two services the first is believed, by name; without it the other is.
    world.tell(&add(&web("other", DSR, &[("10.1.3.3", "b")])));
    expect(&world, &[b, "10.1.3.3 at 192.168.16.20"]);
    world.tell(r#"{"event":"DeleteService","id":{"namespace":"default","name":"other"}}"#);
    expect(&world, &[b, c]);
    // A pod that has moved, and one that is gone.
    world.tell(&add(&web("web", DSR, &[("10.1.2.3", "c")])));
    expect(&world, &["10.1.2.3 at 192.168.16.30"]);
    // A backend with its node's address is at that node, whatever its service claims.
    world.tell(&add(&web("web", DSR, &[("192.168.16.30", "b")])));
    expect(&world, &[]);
    world.tell(&add(&web("web", DSR, &[("10.1.2.3", "b")])));
    expect(&world, &[b]);
    world.tell(&add(&web("web", "", &[("10.1.2.3", "b")])));
    expect(&world, &[]);
}

#[test]
fn one_family_of_a_node_says_nothing_of_the_other() {
    let mut world = world();
    world.tell(NODES);
    let v6 = r#""cluster_ips":["fd00::1"],"external_ips":["2001:db8::7"],"forwarding":"dsr",
        "ports":{"http":{"protocol":"TCP","port":80}},
        "backends":{"http":[{"ip":"fd00:2::3","port":8080,"node":"b"},{"ip":"fd00:3::3","port":8080,"node":"c"}]}"#;
    world.tell(&add(&service("web", &v6.replace('\n', ""))));
    let located = world.located();
    assert!(located.contains(&"fd00:2::3 at 2001:db8:16::20".to_owned()));
    assert_eq!(world.renderer.unlocated().len(), 1);
}

#[test]
fn whatever_the_order_of_events_addresses_are_where_a_resync_says() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let mut number: u32 = 7;
    let mut draw = |below: u32| {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (number >> 16) % below
    };
    let mut world = world();
    let mut services = vec![None; 3];
    let mut nodes = String::from("{}");
    for step in 0..300 {
        let which = draw(4) as usize;
        if which == services.len() {
            let known = (0..4).filter(|_| draw(2) == 0);
            let list: Vec<String> = known
                .map(|node| format!(r#""{}":["192.168.16.{}0"]"#, NAMES[node], node + 1))
                .collect();
            nodes = format!("{{{}}}", list.join(","));
            world.tell(&format!(r#"{{"event":"UpdateNodes","nodes":{nodes}}}"#));
        } else if draw(4) == 0 {
            services[which] = None;
            world.tell(&format!(
                r#"{{"event":"DeleteService","id":{{"namespace":"default","name":"{which}"}}}}"#
            ));
        } else {
            let forwarding = if draw(3) == 0 { "" } else { DSR };
            let addresses: Vec<String> =
                (0..draw(4)).map(|host| format!("10.1.9.{host}")).collect();
            let elsewhere: Vec<(&str, &str)> = addresses
                .iter()
                .map(|address| (address.as_str(), NAMES[draw(4) as usize]))
                .collect();
            let name = which.to_string();
            services[which] = Some(web(&name, forwarding, &elsewhere));
            world.tell(&add(services[which].as_ref().unwrap()));
        }
        let mut other = World::new();
        let all: Vec<&str> = services.iter().flatten().map(String::as_str).collect();
        let told = resync(&["192.168.16.10", "192.168.16.20"], &all);
        other.tell(&told.replacen(
            "\"services\"",
            &format!("\"nodes\":{nodes},\"services\""),
            1,
        ));
        assert_eq!(world.located(), other.located(), "step {step}");
    }
}
