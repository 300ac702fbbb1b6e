//! The frontends of a service.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use shunt_model::{Refusal, RenderOptions, decode};

use crate::world::{World, add, addresses, nodes, resync, service};

const PORT: &str = r#""ports":{"http":{"protocol":"TCP","port":80}}"#;
const TWO_BACKENDS: &str = r#""backends":{"http":[{"ip":"10.1.1.3","port":8080,"local":true},{"ip":"10.1.2.3","port":8080}]}"#;

/// A service of fields, on the nodes 192.168.16.10 (this one) and 192.168.16.20: its frontends.
#[track_caller]
fn expect(fields: &[&str], frontends: &[&str]) {
    let service = service("web", &fields.join(","));
    World::synced(&["192.168.16.10", "192.168.16.20"], &[&service]).expect(frontends);
}

#[test]
fn each_kind_of_address_becomes_a_frontend_with_the_port_s_backends() {
    expect(
        &[
            r#""cluster_ips":["10.96.0.1"],"external_ips":["203.0.113.7"],"load_balancer_ips":["198.51.100.1"]"#,
            r#""ports":{"http":{"protocol":"TCP","port":80,"node_port":30080}},"session_affinity_timeout":60"#,
            TWO_BACKENDS,
        ],
        &[
            "10.96.0.1:80/TCP ClusterIP Cluster affinity=60 default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
            "192.168.16.10:30080/TCP NodePort Cluster affinity=60 default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
            "192.168.16.20:30080/TCP NodePort Cluster this-node affinity=60 default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
            "198.51.100.1:80/TCP LoadBalancerIP Cluster affinity=60 default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
            "203.0.113.7:80/TCP ExternalIP Cluster affinity=60 default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
        ],
    );
}

#[test]
fn each_port_has_its_own_backends_and_protocol() {
    expect(
        &[
            r#""cluster_ips":["10.96.0.10"]"#,
            r#""ports":{"dns":{"protocol":"UDP","port":53},"dns-tcp":{"protocol":"TCP","port":53},"x":{"protocol":"SCTP","port":53}}"#,
            r#""backends":{"dns":[{"ip":"10.1.1.3","port":1053}],"dns-tcp":[{"ip":"10.1.1.3","port":2053}]}"#,
        ],
        &[
            "10.96.0.10:53/SCTP ClusterIP Cluster default/web: none",
            "10.96.0.10:53/TCP ClusterIP Cluster default/web: 10.1.1.3:2053*1",
            "10.96.0.10:53/UDP ClusterIP Cluster default/web: 10.1.1.3:1053*1",
        ],
    );
}

#[test]
fn policy_local_keeps_external_frontends_local_and_leaves_the_cluster_ip_alone() {
    expect(
        &[
            r#""cluster_ips":["10.96.0.1"],"external_ips":["203.0.113.7"],"load_balancer_ips":["198.51.100.1"]"#,
            r#""ports":{"http":{"protocol":"TCP","port":80,"node_port":30080}},"traffic_policy":"Local""#,
            TWO_BACKENDS,
        ],
        &[
            "10.96.0.1:80/TCP ClusterIP Cluster default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
            "192.168.16.10:30080/TCP NodePort Local default/web: 10.1.1.3:8080*1 local; here 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
            "198.51.100.1:80/TCP LoadBalancerIP Local default/web: 10.1.1.3:8080*1 local; here 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
            "203.0.113.7:80/TCP ExternalIP Local default/web: 10.1.1.3:8080*1 local; here 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
        ],
    );
}

#[test]
fn internal_policy_local_keeps_the_cluster_ip_local_and_leaves_external_frontends_alone() {
    expect(
        &[
            r#""cluster_ips":["10.96.0.1"],"external_ips":["203.0.113.7"]"#,
            PORT,
            r#""internal_traffic_policy":"Local""#,
            TWO_BACKENDS,
        ],
        &[
            "10.96.0.1:80/TCP ClusterIP Local default/web: 10.1.1.3:8080*1 local",
            "203.0.113.7:80/TCP ExternalIP Cluster default/web: 10.1.1.3:8080*1 local, 10.1.2.3:8080*1",
        ],
    );
}

#[test]
fn a_frontend_without_backends_is_rendered_with_an_empty_set() {
    expect(
        &[
            r#""cluster_ips":["10.96.0.1"],"external_ips":["203.0.113.7"],"traffic_policy":"Local""#,
            PORT,
            r#""backends":{"http":[{"ip":"10.1.2.3","port":8080}]}"#,
        ],
        &[
            "10.96.0.1:80/TCP ClusterIP Cluster default/web: 10.1.2.3:8080*1",
            "203.0.113.7:80/TCP ExternalIP Local default/web: none; here 10.1.2.3:8080*1",
        ],
    );
    expect(
        &[r#""cluster_ips":["10.96.0.1"]"#, PORT],
        &["10.96.0.1:80/TCP ClusterIP Cluster default/web: none"],
    );
}

#[test]
fn a_service_without_addresses_and_node_ports_has_no_frontends() {
    expect(&[PORT, TWO_BACKENDS], &[]);
    expect(&[r#""cluster_ips":["10.96.0.1"]"#], &[]);
}

#[test]
fn only_ready_backends_in_scope_take_new_connections() {
    expect(
        &[
            r#""cluster_ips":["10.96.0.1"],"external_ips":["203.0.113.7"],"traffic_policy":"Local""#,
            PORT,
            r#""backends":{"http":[
                {"ip":"10.1.1.1","port":1,"local":true,"state":"Ready"},
                {"ip":"10.1.1.2","port":1,"local":true,"state":"Terminating"},
                {"ip":"10.1.1.3","port":1,"local":true,"state":"NotReady"},
                {"ip":"10.1.1.4","port":1,"local":true,"scopes":["Local"]},
                {"ip":"10.1.1.5","port":1,"local":true,"scopes":["Cluster"]},
                {"ip":"10.1.1.6","port":1,"local":true,"scopes":[]},
                {"ip":"10.1.1.7","port":1,"scopes":["Cluster"],"node":"b","zone":"z","host_network":true}]}"#,
        ],
        &[
            "10.96.0.1:80/TCP ClusterIP Cluster default/web: 10.1.1.1:1*1 local, 10.1.1.2:1*0 local, 10.1.1.5:1*1 local, 10.1.1.7:1*1",
            "203.0.113.7:80/TCP ExternalIP Local default/web: 10.1.1.1:1*1 local, 10.1.1.2:1*0 local, 10.1.1.4:1*1 local; here 10.1.1.1:1*1 local, 10.1.1.2:1*0 local, 10.1.1.5:1*1 local, 10.1.1.7:1*1",
        ],
    );
}

/// The frontends of a ClusterIP and, under policy Local, an ExternalIP with these backends.
#[track_caller]
fn expect_of_policy_local(backends: &str, cluster: &str, local: &str) {
    let backends = format!(r#""backends":{{"http":[{backends}]}}"#);
    let addresses =
        r#""cluster_ips":["10.96.0.1"],"external_ips":["203.0.113.7"],"traffic_policy":"Local""#;
    expect(
        &[addresses, PORT, &backends],
        &[
            &format!("10.96.0.1:80/TCP ClusterIP Cluster default/web: {cluster}"),
            &format!("203.0.113.7:80/TCP ExternalIP Local default/web: {local}"),
        ],
    );
}

#[test]
fn terminating_backends_that_serve_are_used_when_nothing_ready_is_left() {
    let here = r#"{"ip":"10.1.1.1","port":1,"local":true,"state":"Terminating","serving":true}"#;
    let silent = r#"{"ip":"10.1.1.2","port":1,"local":true,"state":"Terminating"}"#;
    let there = r#"{"ip":"10.1.2.1","port":1,"weight":3,"state":"Terminating","serving":true}"#;
    let unready = r#"{"ip":"10.1.1.3","port":1,"local":true,"state":"NotReady","serving":true}"#;
    let ready_there = r#"{"ip":"10.1.2.2","port":1}"#;
    let ready_here = r#"{"ip":"10.1.1.4","port":1,"local":true,"serving":true}"#;
    let drained = r#"{"ip":"10.1.2.3","port":1,"weight":0}"#;
    let join = |list: &[&str]| list.join(",");

    expect_of_policy_local(
        &join(&[here, silent, there, unready]),
        "10.1.1.1:1*1 local, 10.1.1.2:1*0 local, 10.1.2.1:1*3",
        "10.1.1.1:1*1 local, 10.1.1.2:1*0 local; here 10.1.1.1:1*1 local, 10.1.1.2:1*0 local, 10.1.2.1:1*3",
    );
    // The two sets by themselves: others are ready elsewhere, none is here.
    expect_of_policy_local(
        &join(&[here, silent, there, ready_there]),
        "10.1.1.2:1*0 local, 10.1.2.1:1*0, 10.1.2.2:1*1",
        "10.1.1.1:1*1 local, 10.1.1.2:1*0 local; here 10.1.1.2:1*0 local, 10.1.2.1:1*0, 10.1.2.2:1*1",
    );
    expect_of_policy_local(
        &join(&[here, there, ready_here]),
        "10.1.1.1:1*0 local, 10.1.1.4:1*1 local, 10.1.2.1:1*0",
        "10.1.1.1:1*0 local, 10.1.1.4:1*1 local; here 10.1.1.1:1*0 local, 10.1.1.4:1*1 local, 10.1.2.1:1*0",
    );
    // A ready one that takes no new connection is not left.
    expect_of_policy_local(
        &join(&[there, drained]),
        "10.1.2.1:1*3, 10.1.2.3:1*0",
        "none; here 10.1.2.1:1*3, 10.1.2.3:1*0",
    );
    // Where no frontend selects from the Local set, it takes no endpoint out of the Cluster set.
    let backends = format!(r#""backends":{{"http":[{here},{ready_there}]}}"#);
    expect(
        &[
            r#""cluster_ips":["10.96.0.1"],"traffic_policy":"Local""#,
            PORT,
            &backends,
        ],
        &["10.96.0.1:80/TCP ClusterIP Cluster default/web: 10.1.1.1:1*0 local, 10.1.2.2:1*1"],
    );
}

#[test]
fn each_family_falls_back_to_terminating_backends_by_itself() {
    expect(
        &[
            r#""cluster_ips":["10.96.0.1","fd00::1"]"#,
            PORT,
            r#""backends":{"http":[
                {"ip":"10.1.1.1","port":1},
                {"ip":"10.1.1.2","port":1,"state":"Terminating","serving":true},
                {"ip":"fd01::2","port":1,"state":"Terminating","serving":true}]}"#,
        ],
        &[
            "10.96.0.1:80/TCP ClusterIP Cluster default/web: 10.1.1.1:1*1, 10.1.1.2:1*0",
            "[fd00::1]:80/TCP ClusterIP Cluster default/web: [fd01::2]:1*1",
        ],
    );
}

#[test]
fn backends_are_sorted_and_duplicates_count_once() {
    expect(
        &[
            r#""cluster_ips":["10.96.0.1"]"#,
            PORT,
            r#""backends":{"http":[{"ip":"10.1.1.9","port":2},{"ip":"10.1.1.10","port":1},
                {"ip":"10.1.1.9","port":1},{"ip":"10.1.1.9","port":2},{"ip":"10.1.1.9","port":2}]}"#,
        ],
        &[
            "10.96.0.1:80/TCP ClusterIP Cluster default/web: 10.1.1.9:1*1, 10.1.1.9:2*1, 10.1.1.10:1*1",
        ],
    );
}

#[test]
fn each_family_s_frontends_use_that_family_s_backends() {
    let service = service(
        "web",
        r#""cluster_ips":["10.96.0.1","2001:db8:96::1"],
           "ports":{"http":{"protocol":"TCP","port":80,"node_port":30080}},
           "backends":{"http":[{"ip":"2001:db8:1::3","port":8080},{"ip":"10.1.2.3","port":8080}]}"#,
    );
    World::synced(&["192.168.16.10", "2001:db8:16::10"], &[&service]).expect(&[
        "10.96.0.1:80/TCP ClusterIP Cluster default/web: 10.1.2.3:8080*1",
        "192.168.16.10:30080/TCP NodePort Cluster default/web: 10.1.2.3:8080*1",
        "[2001:db8:16::10]:30080/TCP NodePort Cluster default/web: [2001:db8:1::3]:8080*1",
        "[2001:db8:96::1]:80/TCP ClusterIP Cluster default/web: [2001:db8:1::3]:8080*1",
    ]);
}

#[test]
fn node_ports_stand_on_the_families_of_the_service_s_addresses() {
    let port = r#""ports":{"http":{"protocol":"TCP","port":80,"node_port":30080}}"#;
    let node_ips = ["192.168.16.10", "2001:db8:16::10"];
    let v4 = service("web", &format!(r#""cluster_ips":["10.96.0.1"],{port}"#));
    World::synced(&node_ips, &[&v4]).expect(&[
        "10.96.0.1:80/TCP ClusterIP Cluster default/web: none",
        "192.168.16.10:30080/TCP NodePort Cluster default/web: none",
    ]);
    let neither = service("web", port);
    World::synced(&node_ips, &[&neither]).expect(&[
        "192.168.16.10:30080/TCP NodePort Cluster default/web: none",
        "[2001:db8:16::10]:30080/TCP NodePort Cluster default/web: none",
    ]);
}

#[test]
fn an_address_of_the_service_goes_before_a_node_port_on_the_same_address_and_port() {
    expect(
        &[
            r#""external_ips":["192.168.16.10"]"#,
            r#""ports":{"a":{"protocol":"TCP","port":30080},"b":{"protocol":"TCP","port":80,"node_port":30080}}"#,
            r#""backends":{"a":[{"ip":"10.1.1.1","port":1}],"b":[{"ip":"10.1.1.2","port":2}]}"#,
        ],
        &[
            "192.168.16.10:80/TCP ExternalIP Cluster default/web: 10.1.1.2:2*1",
            "192.168.16.10:30080/TCP ExternalIP Cluster default/web: 10.1.1.1:1*1",
            "192.168.16.20:30080/TCP NodePort Cluster this-node default/web: 10.1.1.2:2*1",
        ],
    );
}

#[test]
fn local_backends_count_as_often_as_the_flag_says_and_weight_0_stays_in_the_set() {
    let service = service(
        "web",
        &format!(
            r#""cluster_ips":["10.96.0.1"],{PORT},"backends":{{"http":[
                {{"ip":"10.1.1.1","port":1,"local":true,"weight":5}},{{"ip":"10.1.1.2","port":1,"weight":5}},
                {{"ip":"10.1.1.3","port":1,"local":true}},{{"ip":"10.1.1.4","port":1,"local":true,"weight":0}}]}}"#
        ),
    );
    let mut world = World::with_weight(3);
    world.tell(&resync(&[], &[&service]));
    world.expect(&["10.96.0.1:80/TCP ClusterIP Cluster default/web: \
         10.1.1.1:1*15 local, 10.1.1.2:1*5, 10.1.1.3:1*3 local, 10.1.1.4:1*0 local"]);
}

#[test]
fn weights_that_add_up_to_more_than_a_u32_are_refused_without_any_effect() {
    let weights = |first: u32, second: u32, local: bool| {
        service(
            "web",
            &format!(
                r#""cluster_ips":["10.96.0.1"],{PORT},"backends":{{"http":[
                    {{"ip":"10.1.1.1","port":1,"weight":{first}}},
                    {{"ip":"10.1.1.2","port":1,"weight":{second},"local":{local}}}]}}"#
            ),
        )
    };
    let mut world = World::with_weight(2);
    world.tell(&resync(&[], &[&weights(4_294_967_294, 1, false)]));
    let before = world.frontends();
    for (first, second, local) in [
        (4_294_967_295, 1, false),
        (4_294_967_294, 1, true),
        (0, 2_147_483_648, true),
    ] {
        let service = weights(first, second, local);
        for line in [
            add(&service),
            resync(&[], &[&service]),
            nodes(&["192.168.16.10"], &[&service]),
        ] {
            let error = world.apply(decode(&line).unwrap()).unwrap_err();
            assert_eq!(
                error.to_string(),
                "service default/web: backends.http: the sum of the weights exceeds 4294967295 \
                 (local backends count 2 times)"
            );
            assert_eq!(world.frontends(), before);
        }
    }
}

#[test]
fn without_the_flag_this_node_is_where_the_host_has_the_address() {
    let service = service(
        "web",
        r#""traffic_policy":"Local","ports":{"http":{"protocol":"TCP","port":80,"node_port":30080}}"#,
    );
    let mut world = World::with_options(RenderOptions {
        node_ips: BTreeSet::new(),
        host_addresses: addresses(&["127.0.0.1", "192.168.16.20", "192.168.16.99"]),
        ..RenderOptions::default()
    });
    world.tell(&resync(&["192.168.16.10", "192.168.16.20"], &[&service]));
    world.expect(&["192.168.16.20:30080/TCP NodePort Local default/web: none"]);
}

#[test]
fn node_addresses_that_lead_to_no_single_node_are_left_out() {
    let service = service(
        "web",
        r#""ports":{"http":{"protocol":"TCP","port":80,"node_port":30080}}"#,
    );
    let unusable = [
        "0.0.0.0",
        "127.0.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "ff02::1",
    ];
    let usable = ["192.168.16.10", "2001:db8:16::10"];
    let all: Vec<&str> = unusable.into_iter().chain(usable).collect();
    let expected = usable.map(|address| {
        let address = match address.parse().unwrap() {
            IpAddr::V4(v4) => v4.to_string(),
            IpAddr::V6(v6) => format!("[{v6}]"),
        };
        format!("{address}:30080/TCP NodePort Cluster default/web: none")
    });
    let expected = expected.each_ref().map(String::as_str);
    let mut world = World::synced(&all, &[&service]);
    world.expect(&expected);
    assert_eq!(*world.renderer.nodes().left_out(), addresses(&unusable));

    // The same in the other event; one that is not listed any more is not left out any more.
    world.tell(&nodes(&["fe80::2", "192.168.16.10"], &[]));
    world.expect(&expected[..1]);
    assert_eq!(*world.renderer.nodes().left_out(), addresses(&["fe80::2"]));
}

#[test]
fn frontends_of_one_port_share_one_set_where_it_is_the_same() {
    let service = service(
        "web",
        r#""cluster_ips":["10.96.0.1"],"external_ips":["203.0.113.7"],"traffic_policy":"Local",
           "ports":{"a":{"protocol":"TCP","port":80,"node_port":30080},"b":{"protocol":"TCP","port":81}},
           "backends":{"a":[{"ip":"10.1.1.1","port":1,"local":true}],"b":[{"ip":"10.1.1.1","port":1}]}"#,
    );
    let world = World::synced(&["192.168.16.10"], &[&service]);
    let sets: Vec<_> = world
        .renderer
        .frontends()
        .map(|(_, frontend)| &frontend.backends)
        .collect();
    let [cluster_a, cluster_b, node_a, external_a, external_b] = sets[..] else {
        panic!("{sets:?}")
    };
    assert!(
        Arc::ptr_eq(cluster_a, node_a),
        "both policies choose the same backends"
    );
    assert!(Arc::ptr_eq(cluster_a, external_a));
    assert!(
        !Arc::ptr_eq(cluster_b, external_b),
        "Local has no backend of port b"
    );
}

#[test]
fn a_frontend_drops_where_the_policy_and_rejects_where_nothing_is_left() {
    for (backends, refusal) in [
        (
            r#"[{"ip":"10.1.1.1","port":1,"local":true}]"#,
            Refusal::Drop,
        ),
        (r#"[{"ip":"10.1.2.1","port":1}]"#, Refusal::Drop),
        (r#"[{"ip":"10.1.2.1","port":1,"scopes":[]}]"#, Refusal::Drop),
        (
            r#"[{"ip":"10.1.2.1","port":1,"state":"Terminating","serving":true}]"#,
            Refusal::Drop,
        ),
        (
            r#"[{"ip":"10.1.2.1","port":1,"state":"NotReady","serving":true}]"#,
            Refusal::Reject,
        ),
        ("[]", Refusal::Reject),
        (
            r#"[{"ip":"10.1.2.1","port":1,"weight":0}]"#,
            Refusal::Reject,
        ),
        (
            r#"[{"ip":"10.1.2.1","port":1,"state":"Terminating"}]"#,
            Refusal::Reject,
        ),
        (
            r#"[{"ip":"10.1.2.1","port":1,"state":"NotReady"}]"#,
            Refusal::Reject,
        ),
    ] {
        let fields = [
            r#""external_ips":["203.0.113.7"],"traffic_policy":"Local""#,
            PORT,
            &format!(r#""backends":{{"http":{backends}}}"#),
        ];
        let world = World::synced(&["192.168.16.10"], &[&service("web", &fields.join(","))]);
        let frontends = world.renderer.frontends();
        let refusals: Vec<_> = frontends.map(|(_, frontend)| frontend.refusal).collect();
        assert_eq!(refusals, [refusal], "{backends}");
    }
}

#[test]
fn source_ranges_are_for_load_balancer_addresses_of_their_family() {
    let service = |ranges: &str| {
        [
            r#""cluster_ips":["10.96.0.1"],"external_ips":["203.0.113.7"],"load_balancer_ips":["198.51.100.1","2001:db8::1"]"#.to_owned(),
            PORT.to_owned(),
            format!(r#""load_balancer_source_ranges":[{ranges}]"#),
        ]
    };
    let expect = |ranges: &str, v4: &str, v6: &str| {
        let fields = service(ranges);
        expect(
            &fields.each_ref().map(String::as_str),
            &[
                "10.96.0.1:80/TCP ClusterIP Cluster default/web: none",
                &format!("198.51.100.1:80/TCP LoadBalancerIP Cluster{v4} default/web: none"),
                "203.0.113.7:80/TCP ExternalIP Cluster default/web: none",
                &format!("[2001:db8::1]:80/TCP LoadBalancerIP Cluster{v6} default/web: none"),
            ],
        );
    };
    expect("", "", "");
    expect(
        r#""192.0.2.9/24","10.0.0.0/8","192.0.2.0/24""#,
        " from 10.0.0.0/8 from 192.0.2.0/24",
        "",
    );
    expect(
        r#""10.0.0.0/8","0.0.0.0/0","2001:db8::/32""#,
        "",
        " from 2001:db8::/32",
    );
}
