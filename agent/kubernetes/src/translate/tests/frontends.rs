//! Rules 9 to 21: the Services that count, and their addresses.

use std::net::IpAddr;

use serde_json::{Value, json};
use shunt_model::{Forwarding, Protocol, Selection, TrafficPolicy};
use shunt_runtime::HealthCheck;

use super::world::World;
use crate::translate::{
    problem::Problem,
    view::{Daemon, Limits},
};

fn texts<T: ToString>(list: &[T]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

#[test]
fn a_service_without_a_cluster_ip_is_none() {
    for spec in [
        json!({ "clusterIP": "", "clusterIPs": null }),
        json!({ "clusterIP": null }),
        json!({ "type": "ExternalName" }),
    ] {
        let translation = World::new().spec(spec.clone()).translate();
        assert_eq!(translation, <_>::default(), "{spec}");
    }
}

#[test]
fn a_headless_service_is_known_by_its_name_alone() {
    let headless = json!({ "clusterIP": "None", "clusterIPs": ["None"] });
    let v4 = json!([{ "addresses": ["10.1.1.1"], "conditions": { "ready": true } }]);
    let v6 = json!([{ "addresses": ["fd00:1::1"], "conditions": { "ready": true } }]);
    let ports = json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]);
    let world = World::new().spec(headless).slice(v4);
    let world = world.slice_of("IPv6", ports, v6);
    assert_eq!(world.model().addresses().count(), 0);
    assert_eq!(world.endpoints(), ["10.1.1.1:8080 C", "fd00:1::1:8080 C"]);
}

#[test]
fn a_service_has_the_cluster_ip_of_each_of_its_families() {
    for (spec, expected) in [
        (json!({}), &["10.96.0.1", "fd00:96::1"][..]),
        (
            json!({ "ipFamilies": ["IPv6", "IPv4"], "clusterIPs": ["fd00:96::1", "10.96.0.1"] }),
            &["10.96.0.1", "fd00:96::1"],
        ),
        (
            json!({ "ipFamilies": ["IPv4"], "clusterIPs": ["10.96.0.1"] }),
            &["10.96.0.1"],
        ),
        // An object from before there were two families.
        (
            json!({ "ipFamilies": null, "clusterIPs": null }),
            &["10.96.0.1"],
        ),
        (
            json!({ "ipFamilies": null, "clusterIP": "fd00:96::1" }),
            &["fd00:96::1"],
        ),
        (
            json!({ "ipFamilies": null, "clusterIP": "10.096.0.01" }),
            &["10.96.0.1"],
        ),
    ] {
        let model = World::new().spec(spec.clone()).model();
        assert_eq!(texts(&model.cluster_ips), expected, "{spec}");
    }
}

#[test]
fn without_a_cluster_ip_of_a_family_there_is_no_service_in_it() {
    let world = World::new()
        .spec(json!({
            "type": "LoadBalancer",
            "ipFamilies": ["IPv4"],
            "clusterIPs": ["10.96.0.1"],
            "externalIPs": ["203.0.113.1", "2001:db8::1"],
        }))
        .ingress(json!([{ "ip": "203.0.113.2" }, { "ip": "2001:db8::2" }]))
        .slice(json!([{ "addresses": ["10.0.0.1"] }]))
        .slice_of(
            "IPv6",
            json!([{ "name": "http", "port": 8080 }]),
            json!([{ "addresses": ["fd00::1"] }]),
        );
    let model = world.model();
    assert_eq!(texts(&model.external_ips), ["203.0.113.1"]);
    assert_eq!(texts(&model.load_balancer_ips), ["203.0.113.2"]);
    assert_eq!(world.endpoints(), ["10.0.0.1:8080 C"]);
}

#[test]
fn what_is_opened_does_not_depend_on_the_type() {
    let ports = json!([{ "name": "http", "port": 80, "nodePort": 30080 }]);
    let world = World::new()
        .spec(json!({ "ports": ports, "externalIPs": ["203.0.113.1"] }))
        .ingress(json!([{ "ip": "203.0.113.2" }]));
    let model = world.model();
    assert_eq!(world.port().node_port.unwrap().get(), 30080);
    assert_eq!(texts(&model.external_ips), ["203.0.113.1"]);
    assert_eq!(texts(&model.load_balancer_ips), ["203.0.113.2"]);
}

#[test]
fn a_balancers_address_is_captured_unless_the_balancer_is_a_proxy() {
    let model = World::new()
        .ingress(json!([
            { "ip": "203.0.113.1" },
            { "ip": "203.0.113.2", "ipMode": "VIP" },
            { "ip": "203.0.113.3", "ipMode": "Proxy" },
            { "hostname": "balancer.example" },
            { "ip": "" },
        ]))
        .model();
    assert_eq!(
        texts(&model.load_balancer_ips),
        ["203.0.113.1", "203.0.113.2"]
    );
}

#[test]
fn an_address_counts_once_and_the_balancers_counts_before_an_external_one() {
    let model = World::new()
        .spec(json!({
            "externalIPs": ["203.0.113.1", "203.0.113.2", "203.0.113.02", "10.96.0.1", ""],
        }))
        .ingress(json!([{ "ip": "203.0.113.1" }, { "ip": "203.0.113.1" }]))
        .model();
    assert_eq!(texts(&model.external_ips), ["203.0.113.2"]);
    assert_eq!(texts(&model.load_balancer_ips), ["203.0.113.1"]);
}

#[test]
fn an_address_that_is_none_leaves_the_others() {
    let translation = World::new()
        .spec(json!({ "externalIPs": ["nonsense", "127.0.0.1", "203.0.113.1"] }))
        .translate();
    let model = translation.service.unwrap();
    assert_eq!(texts(&model.external_ips), ["203.0.113.1"]);
    assert_eq!(
        texts(&translation.problems),
        [
            "spec.externalIPs: `nonsense` is not an IP address",
            "spec.externalIPs: 127.0.0.1 is a loopback address, which cannot be used here",
        ]
    );
}

#[test]
fn an_external_address_is_no_cluster_ip_and_no_link_local_one() {
    let mut world = World::new()
        .spec(json!({
            "externalIPs": ["10.96.3.4", "10.96.0.1", "169.254.169.254", "203.0.113.1"],
        }))
        .ingress(json!([{ "ip": "fd00:96::7" }, { "ip": "2001:db8::1" }]));
    let all = world.translate().service.unwrap();
    assert_eq!(texts(&all.external_ips), ["10.96.3.4", "203.0.113.1"]);
    world.node.service_cidrs = ["10.96.0.0/16", "fd00:96::/112"]
        .map(|range| range.parse().unwrap())
        .into();
    let translation = world.translate();
    let model = translation.service.unwrap();
    assert_eq!(texts(&model.cluster_ips), ["10.96.0.1", "fd00:96::1"]);
    assert_eq!(texts(&model.external_ips), ["203.0.113.1"]);
    assert_eq!(texts(&model.load_balancer_ips), ["2001:db8::1"]);
    assert_eq!(
        texts(&translation.problems),
        [
            "status.loadBalancer.ingress: fd00:96::7 is in fd00:96::/112, which the cluster takes ClusterIPs \
             from: choose an address outside of it",
            "spec.externalIPs: 10.96.3.4 is in 10.96.0.0/16, which the cluster takes ClusterIPs from: choose an \
             address outside of it",
            "spec.externalIPs: 169.254.169.254 is a link-local address, which cannot be used here",
        ]
    );
}

#[test]
fn an_external_address_of_a_node_is_left_out_at_a_port_that_the_cluster_has_there() {
    let ports = |port: u16, protocol: &str| json!([{ "port": port, "protocol": protocol }]);
    let node: IpAddr = [192, 0, 2, 1].into();
    let control: IpAddr = [192, 0, 2, 100].into();
    let world = |ports: Value| {
        let mut world = World::new()
            .spec(json!({ "externalIPs": [node, "203.0.113.1"], "ports": ports }))
            .ingress(json!([{ "ip": control }]));
        world.node.host_ports = [
            ((node, 10250), Daemon::Kubelet),
            ((control, 10250), Daemon::Kubelet),
            ((control, 6443), Daemon::ApiServer),
        ]
        .into();
        world
    };
    for (ports, external, balancer) in [
        (ports(80, "TCP"), true, true),
        (ports(10250, "TCP"), false, false),
        (ports(10250, "UDP"), true, true),
        (ports(6443, "TCP"), true, false),
        (ports(6443, "SCTP"), true, true),
        (
            json!([{ "name": "a", "port": 80 }, { "name": "b", "port": 6443 }]),
            true,
            false,
        ),
    ] {
        let found = world(ports.clone()).translate();
        let model = found.service.unwrap();
        assert_eq!(model.external_ips.contains(&node), external, "{ports}");
        assert!(texts(&model.external_ips).contains(&"203.0.113.1".to_owned()));
        assert_eq!(!model.load_balancer_ips.is_empty(), balancer, "{ports}");
        let refused = usize::from(!external) + usize::from(!balancer);
        assert_eq!(found.problems.len(), refused, "{ports}");
        assert!(found.problems.iter().all(|one| !one.is_of_endpoint()));
        // The ClusterIPs are its own at any port.
        assert_eq!(model.cluster_ips.len(), 2, "{ports}");
    }
    let found = world(ports(6443, "TCP")).translate();
    assert_eq!(
        texts(&found.problems),
        [
            "status.loadBalancer.ingress: 192.0.2.100 is left out, as the API server listens there at the \
             service's port 6443: choose another port, or see --protect-host-ports"
        ]
    );
}

#[test]
fn ranges_are_read_family_by_family() {
    for (ranges, expected) in [
        (
            json!([" 203.0.113.0/24 ", "2001:db8::/32"]),
            &["203.0.113.0/24", "2001:db8::/32"][..],
        ),
        (json!(["2001:db8::/32"]), &["2001:db8::/32"]),
        (
            json!(["0.0.0.0/0", "203.0.113.0/24"]),
            &["0.0.0.0/0", "203.0.113.0/24"],
        ),
        (json!(null), &[]),
    ] {
        let spec = json!({ "loadBalancerSourceRanges": ranges });
        let model = World::new()
            .spec(spec)
            .ingress(json!([{ "ip": "203.0.113.1" }]))
            .model();
        assert_eq!(
            texts(&model.load_balancer_source_ranges),
            expected,
            "{ranges}"
        );
    }
}

#[test]
fn a_range_that_cannot_be_read_admits_nobody() {
    let ranges = json!({ "loadBalancerSourceRanges": ["203.0.113.0/24", "all"] });
    let world = World::new().spec(ranges);
    assert_eq!(world.translate().problems, [], "it matters to nobody");
    let translation = world.ingress(json!([{ "ip": "203.0.113.1" }])).translate();
    assert_eq!(
        translation.service.unwrap().load_balancer_ips,
        [] as [IpAddr; 0]
    );
    assert_eq!(
        texts(&translation.problems),
        [
            "spec.loadBalancerSourceRanges: `all` is not a range of addresses: the load \
             balancer's addresses are not translated"
        ]
    );
}

#[test]
fn a_balancer_that_is_bound_here_is_admitted_where_this_node_is() {
    let mut world = World::new()
        .spec(json!({ "loadBalancerSourceRanges": ["192.0.2.0/24"] }))
        .ingress(json!([{ "ip": "203.0.113.1" }, { "ip": "2001:db8::1" }]));
    world.node.addresses.v6 = Some("2001:db8::9".parse().unwrap());
    for (own, expected) in [
        ("192.0.2.7", &["192.0.2.0/24", "203.0.113.1/32"][..]),
        ("192.0.3.7", &["192.0.2.0/24"]),
    ] {
        world.node.addresses.v4 = Some(own.parse().unwrap());
        let ranges = world.model().load_balancer_source_ranges;
        assert_eq!(texts(&ranges), expected, "{own}");
    }
}

#[test]
fn affinity_lasts_three_hours_unless_it_says_otherwise() {
    for (spec, expected) in [
        (json!({}), 0),
        (json!({ "sessionAffinity": "None" }), 0),
        (json!({ "sessionAffinity": "ClientIP" }), 10_800),
        (
            json!({ "sessionAffinity": "ClientIP", "sessionAffinityConfig": {} }),
            10_800,
        ),
        (
            json!({
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 60 } },
            }),
            60,
        ),
    ] {
        let model = World::new().spec(spec.clone()).model();
        assert_eq!(model.session_affinity_timeout, expected, "{spec}");
    }
}

#[test]
fn an_annotation_says_how_frontends_select() {
    let annotated = |value: &str| {
        let mut world = World::new();
        world.service["metadata"]["annotations"] = json!({ "service.shunt.io/selection": value });
        world
    };
    assert_eq!(World::new().model().selection, None);
    for selection in [Selection::Weighted, Selection::Maglev] {
        let model = annotated(selection.name()).model();
        assert_eq!(model.selection, Some(selection));
    }
    let translation = annotated("Maglev").translate();
    assert_eq!(
        texts(&translation.problems),
        [
            "metadata.annotations[service.shunt.io/selection]: `Maglev` is neither `weighted` nor \
             `maglev`: the agent's default holds"
        ]
    );
    assert_eq!(translation.service.unwrap().selection, None);
}

#[test]
fn an_annotation_says_how_packets_get_to_other_nodes() {
    let annotated = |value: &str| {
        let mut world = World::new();
        world.service["metadata"]["annotations"] = json!({ "service.shunt.io/forwarding": value });
        world
    };
    assert_eq!(World::new().model().forwarding, None);
    for forwarding in [Forwarding::Snat, Forwarding::Dsr] {
        let model = annotated(forwarding.name()).model();
        assert_eq!(model.forwarding, Some(forwarding));
    }
    let translation = annotated("DSR").translate();
    assert_eq!(
        texts(&translation.problems),
        [
            "metadata.annotations[service.shunt.io/forwarding]: `DSR` is neither `snat` nor `dsr`: the \
             agent's default holds"
        ]
    );
    assert_eq!(translation.service.unwrap().forwarding, None);
}

#[test]
fn an_annotation_turns_masquerading_on_and_off() {
    let annotated = |value: &str| {
        let mut world = World::new();
        world.service["metadata"]["annotations"] = json!({ "service.shunt.io/masquerade": value });
        world
    };
    assert_eq!(World::new().model().masquerade, None);
    assert_eq!(annotated("true").model().masquerade, Some(true));
    assert_eq!(annotated("false").model().masquerade, Some(false));
    for wrong in ["True", "1", "", " true"] {
        let translation = annotated(wrong).translate();
        assert_eq!(
            texts(&translation.problems),
            [format!(
                "metadata.annotations[service.shunt.io/masquerade]: `{wrong}` is neither `true` nor \
                 `false`: the agent's default holds"
            )]
        );
        assert_eq!(translation.service.unwrap().masquerade, None);
    }
}

#[test]
fn an_annotation_says_which_ports_are_opaque() {
    let opaque = |annotations: Value| {
        let mut world = World::new();
        world.service["metadata"]["annotations"] = annotations;
        let ports = world.model().opaque_ports;
        ports.map(|ports| ports.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let of = |text: &str| opaque(json!({ "config.linkerd.io/opaque-ports": text }));
    assert_eq!(opaque(json!({})), None);
    assert_eq!(of(""), Some(vec![]), "none of them is");
    let found = of("http, 25,3306-3310,other,9-1,").unwrap();
    assert_eq!(found, ["25", "80", "3306-3310"]);
}

#[test]
fn the_external_policy_counts_where_there_is_an_outside() {
    use TrafficPolicy::{Cluster, Local};
    for (spec, expected) in [
        (json!({ "type": "ClusterIP" }), Cluster),
        (
            json!({ "type": "ClusterIP", "externalIPs": ["203.0.113.1"] }),
            Local,
        ),
        (json!({ "type": "NodePort" }), Local),
        (json!({ "type": "LoadBalancer" }), Local),
    ] {
        let model = World::new()
            .spec(json!({ "externalTrafficPolicy": "Local" }))
            .spec(spec.clone())
            .model();
        assert_eq!(model.traffic_policy, expected, "{spec}");
        assert_eq!(model.internal_traffic_policy, Cluster, "{spec}");
    }
    let model = World::new()
        .spec(json!({ "internalTrafficPolicy": "Local" }))
        .model();
    assert_eq!(
        (model.traffic_policy, model.internal_traffic_policy),
        (Cluster, Local)
    );
}

#[test]
fn one_number_under_three_protocols_is_three_ports() {
    let protocols = ["TCP", "UDP", "SCTP"];
    for named in [true, false] {
        let name = |protocol: &str| {
            if named {
                protocol.to_lowercase()
            } else {
                String::new()
            }
        };
        let ports = |number: u16| -> Vec<Value> {
            let port = |protocol: &&str| json!({ "name": name(protocol), "port": number, "protocol": protocol });
            protocols.iter().map(port).collect()
        };
        let mut world = World::new().spec(json!({ "ports": ports(53) }));
        for (index, port) in ports(5353).into_iter().enumerate() {
            let endpoints = json!([{ "addresses": [format!("10.0.0.{index}")] }]);
            world = world.slice_of("IPv4", json!([port]), endpoints);
        }
        let model = world.model();
        let found = model.ports.iter().map(|port| {
            let endpoints: Vec<_> = port
                .endpoints
                .iter()
                .map(|one| one.ip.to_string())
                .collect();
            (port.protocol, port.port, endpoints)
        });
        let mut found: Vec<_> = found.collect();
        found.sort();
        let expected = [
            (Protocol::Sctp, 53, vec!["10.0.0.2".to_owned()]),
            (Protocol::Tcp, 53, vec!["10.0.0.0".to_owned()]),
            (Protocol::Udp, 53, vec!["10.0.0.1".to_owned()]),
        ];
        assert_eq!(found, expected, "named: {named}");
        let mut names: Vec<_> = model.ports.iter().map(|port| &port.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        names.dedup();
        assert_eq!(names.len(), 3, "a name stands once");
    }
}

#[test]
fn ports_that_cannot_be_are_left_out() {
    let ports = json!([
        { "name": "http", "port": 80, "nodePort": 30080 },
        { "name": "again", "port": 80 },
        { "name": "other", "port": 81, "nodePort": 30080 },
        { "name": "zero", "port": 0 },
        { "name": "quic", "port": 443, "protocol": "QUIC" },
    ]);
    let translation = World::new().spec(json!({ "ports": ports })).translate();
    let model = translation.service.unwrap();
    let found: Vec<_> = model
        .ports
        .iter()
        .map(|port| (port.port, port.node_port))
        .collect();
    assert_eq!(found, [(80, 30080.try_into().ok()), (81, None)]);
    assert_eq!(
        texts(&translation.problems),
        [
            "port `again`: another port of the service has its number and protocol",
            "port `other`: another port of the service has its node port and protocol",
            "port `zero`: the port is 0",
            "port `quic`: the protocol is none of TCP, UDP and SCTP",
        ]
    );
}

#[test]
fn a_health_check_counts_addresses_of_ready_endpoints_here() {
    let world = World::new()
        .spec(json!({
            "type": "LoadBalancer",
            "externalTrafficPolicy": "Local",
            "healthCheckNodePort": 32000,
            "ports": [{ "name": "http", "port": 80 }, { "name": "https", "port": 443 }],
        }))
        .slice_of(
            "IPv4",
            json!([{ "name": "http", "port": 8080 }, { "name": "https", "port": 8443 }]),
            json!([
                { "addresses": ["10.0.0.1"], "nodeName": "here" },
                { "addresses": ["10.0.0.2"], "nodeName": "here", "conditions": { "ready": false, "terminating": true } },
                { "addresses": ["10.0.0.3"], "nodeName": "there" },
                { "addresses": ["10.0.0.4"] },
            ]),
        )
        .slice_of(
            "IPv6",
            json!([{ "name": "http", "port": 8080 }]),
            json!([{ "addresses": ["fd00::1"], "nodeName": "here" }]),
        );
    let expected = HealthCheck {
        port: 32000.try_into().unwrap(),
        local_endpoints: 2,
    };
    assert_eq!(world.translate().health_check, Some(expected));
    for spec in [
        json!({ "type": "NodePort" }),
        json!({ "externalTrafficPolicy": "Cluster" }),
        json!({ "healthCheckNodePort": 0 }),
    ] {
        let translation = world.clone().spec(spec.clone()).translate();
        assert_eq!(translation.health_check, None, "{spec}");
    }
}

#[test]
fn a_service_that_is_larger_than_a_table_is_counted_and_not_translated() {
    let limits = Limits {
        frontends: 4,
        backends: 1,
    };
    let endpoints = |count: u8| {
        let endpoints = 1..=count;
        endpoints
            .map(|number| json!({ "addresses": [format!("10.1.1.{number}")] }))
            .collect::<Value>()
    };
    let ports = json!([{ "name": "http", "port": 80 }, { "name": "https", "port": 443 }]);
    let addressed = |external: &[&str], count| {
        let spec = json!({ "externalIPs": external, "ports": ports });
        let world = World::new().spec(spec).slice(endpoints(count));
        world.limits(limits).translate()
    };
    let fitting = addressed(&["192.0.2.1"], 4);
    assert_eq!(fitting.problems, []);
    assert!(fitting.service.is_some() && !fitting.is_too_large);
    for (translation, problem) in [
        (
            addressed(&["192.0.2.1", "192.0.2.2"], 1),
            Problem::TooManyFrontends {
                needed: 6,
                capacity: 4,
            },
        ),
        (
            addressed(&[], 5),
            Problem::TooManyEndpoints {
                needed: 5,
                capacity: 1,
            },
        ),
    ] {
        assert_eq!(translation.problems, [problem]);
        assert!(translation.service.is_none() && translation.is_too_large);
    }
}
