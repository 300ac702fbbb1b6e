//! Endpoints of a Service (rules A1 to A5, P1 to P9), and the labels of its slices.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::world::{desired, linkerds, web, workload};
use crate::{
    controllers::workloads::{
        desired::{Group, LeftOut, labels},
        packing::plan,
        service::{Family, Service},
        write::Write,
    },
    objects::external_workload::ExternalWorkload,
};

/// Families, ports and addresses of what is desired.
fn shown(service: &Service, workloads: &[ExternalWorkload]) -> Vec<String> {
    let desired = desired(service, workloads);
    let mut shown = Vec::new();
    for (family, groups) in &desired.families {
        for (ports, group) in groups {
            let ports = ports.iter().map(|port| {
                let name = if port.name.is_empty() {
                    "-"
                } else {
                    &port.name
                };
                format!(
                    "{name}:{}/{}",
                    port.port.unwrap(),
                    port.protocol.as_deref().unwrap()
                )
            });
            let ports = ports.collect::<Vec<_>>().join(",");
            for endpoint in group.values() {
                let addresses = endpoint.addresses.join("+");
                shown.push(format!("{} {ports} {addresses}", family.name()));
            }
        }
    }
    shown
}

#[test]
fn addresses_are_those_of_the_services_families() {
    let both = json!([{ "ip": "192.0.2.1" }, { "ip": "FD00:0::1" }]);
    let dual = [("/spec/workloadIPs", both)];
    for (families, expected) in [
        (json!(["IPv4"]), &["IPv4 http:8080/TCP 192.0.2.1"][..]),
        (json!(["IPv6"]), &["IPv6 http:8080/TCP fd00::1"]),
        (
            json!(["IPv6", "IPv4"]),
            &["IPv4 http:8080/TCP 192.0.2.1", "IPv6 http:8080/TCP fd00::1"],
        ),
        (
            json!([]),
            &["IPv4 http:8080/TCP 192.0.2.1", "IPv6 http:8080/TCP fd00::1"],
        ),
    ] {
        let service = web(&[("/spec/ipFamilies", families.clone())]);
        assert_eq!(
            shown(&service, &[workload("vm", "", &dual)]),
            expected,
            "{families}"
        );
    }
    let v6 = web(&[("/spec/ipFamilies", json!(["IPv6"]))]);
    assert!(shown(&v6, &[workload("vm", "192.0.2.1", &[])]).is_empty());
    // linkerd's may have two of a family: one endpoint with both.
    let two = json!([{ "ip": "192.0.2.2" }, { "ip": "192.0.2.1" }]);
    let two = linkerds("vm", "", &[("/spec/workloadIPs", two)]);
    assert_eq!(
        shown(&web(&[]), &[two]),
        ["IPv4 http:8080/TCP 192.0.2.2+192.0.2.1"]
    );
}

#[test]
fn a_target_port_is_one_of_the_workloads_own() {
    let own = json!([
        { "name": "http", "port": 8080 }, { "name": "dns", "port": 53, "protocol": "UDP" },
        { "name": "dns-tcp", "port": 53, "protocol": "TCP" },
    ]);
    let port = |protocol: &str, target: Value| json!([{ "name": "p", "port": 80, "protocol": protocol, "targetPort": target }]);
    for (ports, expected) in [
        (port("TCP", json!("http")), Some("p:8080/TCP")),
        (port("TCP", json!(8080)), Some("p:8080/TCP")),
        (port("UDP", json!("http")), None),
        (port("UDP", json!(8080)), None),
        (port("TCP", json!(9999)), None),
        (port("TCP", json!("none")), None),
        (port("UDP", json!(53)), Some("p:53/UDP")),
        (port("TCP", json!(53)), Some("p:53/TCP")),
        (port("UDP", json!("dns-tcp")), None),
        (json!([{ "port": 53, "protocol": "UDP" }]), Some("-:53/UDP")),
        (
            json!([
                { "name": "z", "port": 1, "protocol": "TCP", "targetPort": "http" },
                { "name": "a", "port": 2, "protocol": "UDP", "targetPort": 53 },
                { "name": "n", "port": 3, "protocol": "TCP", "targetPort": 3 },
            ]),
            Some("a:53/UDP,z:8080/TCP"),
        ),
    ] {
        let service = web(&[("/spec/ports", ports.clone())]);
        let vm = workload("vm", "192.0.2.1", &[("/spec/ports", own.clone())]);
        let expected: Vec<String> = expected
            .map(|ports| format!("IPv4 {ports} 192.0.2.1"))
            .into_iter()
            .collect();
        assert_eq!(
            shown(&service, std::slice::from_ref(&vm)),
            expected,
            "{ports}"
        );
        let left_out = desired(&service, &[vm]).left_out;
        let why: Vec<LeftOut> = left_out.into_values().collect();
        let is_left_out = expected.is_empty();
        assert_eq!(
            why.contains(&LeftOut::NoMatchingPort),
            is_left_out,
            "{ports}"
        );
    }
}

#[test]
fn workloads_of_other_ports_are_groups_of_their_own() {
    let service = web(&[("/spec/ports/0/targetPort", json!("http"))]);
    let other = [("/spec/ports/0/port", json!(9090))];
    let workloads = [
        workload("one", "192.0.2.1", &[]),
        workload("two", "192.0.2.2", &other),
        workload("three", "192.0.2.3", &[]),
    ];
    let families = desired(&service, &workloads).families;
    let sizes = families[&Family::V4].values().map(Group::len);
    assert_eq!(sizes.collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn a_headless_service_names_its_endpoints_and_may_have_no_ports() {
    let headless = [
        ("/spec/clusterIP", json!("None")),
        ("/spec/ports", json!([])),
    ];
    let service = web(&headless);
    assert_eq!(
        shown(&service, &[workload("vm", "192.0.2.1", &[])]),
        ["IPv4  192.0.2.1"]
    );
    for (name, expected) in [("vm", Some("vm")), ("vm.example", None)] {
        let families = desired(&service, &[workload(name, "192.0.2.1", &[])]).families;
        let endpoint = families[&Family::V4]
            .values()
            .next()
            .unwrap()
            .values()
            .next()
            .unwrap();
        assert_eq!(endpoint.hostname.as_deref(), expected);
    }
    assert_eq!(
        labels(&service)
            .get("service.kubernetes.io/headless")
            .map(|text| &**text),
        Some("")
    );
}

#[test]
fn conditions_are_those_of_kubernetes_own_controller() {
    let unready = ("/status/conditions/0/status", json!("False"));
    let leaving = ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let publishing = [("/spec/publishNotReadyAddresses", json!(true))];
    // ready, serving, terminating
    for (changes, publishes, expected) in [
        (&[][..], false, [true, true, false]),
        (std::slice::from_ref(&unready), false, [false, false, false]),
        (std::slice::from_ref(&unready), true, [true, false, false]),
        (std::slice::from_ref(&leaving), false, [false, true, true]),
        (std::slice::from_ref(&leaving), true, [true, true, true]),
        (
            &[unready.clone(), leaving.clone()],
            false,
            [false, false, true],
        ),
        (&[("/status", json!({}))], false, [false, false, false]),
    ] {
        let service = web(if publishes { &publishing } else { &[] });
        let families = desired(&service, &[workload("vm", "192.0.2.1", changes)]).families;
        let endpoint = families[&Family::V4]
            .values()
            .next()
            .unwrap()
            .values()
            .next()
            .unwrap();
        let found = endpoint.conditions;
        let found = [found.ready, found.serving, found.terminating].map(Option::unwrap);
        assert_eq!(found, expected, "{changes:?} {publishes}");
    }
}

#[test]
fn a_slice_says_whose_it_is_and_has_the_services_labels_but_not_what_is_ours() {
    let service = web(&[(
        "/metadata/labels",
        json!({ "team": "blue", "kubernetes.io/service-name": "x",
                "endpointslice.kubernetes.io/managed-by": "y", "service.kubernetes.io/headless": "" }),
    )]);
    let zone = (
        "/metadata/labels",
        json!({ "app": "web", "topology.kubernetes.io/zone": "z1" }),
    );
    let workloads = [
        workload("vm", "192.0.2.1", &[zone]),
        linkerds("old", "192.0.2.2", &[]),
    ];
    let object = created(&service, &workloads);
    let endpoint = |ip: &str, name: &str| {
        json!({
            "addresses": [ip],
            "conditions": { "ready": true, "serving": true, "terminating": false },
            "targetRef": {
                "kind": "ExternalWorkload", "namespace": "a", "name": name,
                "uid": format!("uid-{name}"),
            },
        })
    };
    let mut own = endpoint("192.0.2.1", "vm");
    own["targetRef"]["apiVersion"] = json!("workload.shunt.io/v1alpha1");
    own["zone"] = json!("z1");
    assert_eq!(
        object,
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "namespace": "a", "generateName": "shunt-external-web-",
                "labels": {
                    "team": "blue", "kubernetes.io/service-name": "web",
                    "endpointslice.kubernetes.io/managed-by": "external-workloads.shunt.io",
                },
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": "web", "uid": "uid-web",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "addressType": "IPv4",
            "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
            "endpoints": [own, endpoint("192.0.2.2", "old")],
        })
    );
}

#[test]
fn endpoints_are_meant_for_their_zone_if_the_service_prefers_it() {
    let annotated = |name: &str, value: &str| {
        let annotations = json!({ format!("service.kubernetes.io/{name}"): value });
        ("/metadata/annotations", annotations)
    };
    let distribution = |value: &str| ("/spec/trafficDistribution", json!(value));
    let unready = ("/status/conditions/0/status", json!("False"));
    let zone = |zone: &str| {
        let labels = json!({ "app": "web", "topology.kubernetes.io/zone": zone });
        ("/metadata/labels", labels)
    };
    let own = Some(json!({ "forZones": [{ "name": "z1" }] }));
    for (service, workload_has, expected) in [
        (vec![distribution("PreferClose")], vec![zone("z1")], &own),
        (vec![distribution("PreferSameZone")], vec![zone("z1")], &own),
        (vec![distribution("PreferSameNode")], vec![zone("z1")], &own),
        (
            vec![annotated("topology-mode", "Auto")],
            vec![zone("z1")],
            &own,
        ),
        (
            vec![annotated("topology-aware-hints", "auto")],
            vec![zone("z1")],
            &own,
        ),
        (
            vec![annotated("topology-mode", "Disabled")],
            vec![zone("z1")],
            &None,
        ),
        (vec![distribution("other")], vec![zone("z1")], &None),
        (vec![], vec![zone("z1")], &None),
        (vec![distribution("PreferClose")], vec![], &None),
        (vec![distribution("PreferClose")], vec![zone("")], &None),
        // As upstream, endpoints that are not ready have none.
        (
            vec![distribution("PreferClose")],
            vec![zone("z1"), unready.clone()],
            &None,
        ),
        (
            vec![
                distribution("PreferClose"),
                ("/spec/publishNotReadyAddresses", json!(true)),
            ],
            vec![zone("z1"), unready.clone()],
            &own,
        ),
    ] {
        let object = created(
            &web(&service),
            &[workload("vm", "192.0.2.1", &workload_has)],
        );
        let hints = object["endpoints"][0].get("hints");
        assert_eq!(hints, expected.as_ref(), "{service:?} {workload_has:?}");
    }
}

#[test]
fn a_slices_port_has_the_app_protocol_of_the_services() {
    for (said, expected) in [
        (json!("kubernetes.io/h2c"), json!("kubernetes.io/h2c")),
        (Value::Null, Value::Null),
    ] {
        let service = web(&[("/spec/ports/0/appProtocol", said)]);
        let object = created(&service, &[workload("vm", "192.0.2.1", &[])]);
        assert_eq!(object["ports"][0]["appProtocol"], expected);
    }
}

/// The one slice that is made for these workloads.
fn created(service: &Service, workloads: &[ExternalWorkload]) -> Value {
    let lists = plan(service, &[], &desired(service, workloads));
    let [list] = <[Vec<Write>; 1]>::try_from(lists).unwrap();
    let [Write::Create(content)] = &*list else {
        panic!("{list:?}");
    };
    content.new_slice(service)
}

#[test]
fn a_workload_without_an_address_is_left_out() {
    // P1: also one whose addresses lead nowhere; of linkerd's group, since ours does not have such.
    for ips in [
        json!([]),
        json!([{ "ip": "127.0.0.1" }]),
        json!([{ "ip": "x" }]),
    ] {
        let vm = linkerds("vm", "", &[("/spec/workloadIPs", ips.clone())]);
        let found = desired(&web(&[]), &[vm]);
        let why: Vec<LeftOut> = found.left_out.into_values().collect();
        assert_eq!(why, [LeftOut::NoAddress], "{ips}");
        assert!(found.families.values().all(BTreeMap::is_empty), "{ips}");
    }
}

#[test]
fn an_endpoint_is_known_by_its_workload_and_its_addresses() {
    // P10: two workloads of one address are two, one that is there twice is one.
    let (one, two) = (
        workload("one", "192.0.2.1", &[]),
        workload("two", "192.0.2.1", &[]),
    );
    let count = |workloads: &[ExternalWorkload]| {
        let families = desired(&web(&[]), workloads).families;
        families[&Family::V4]
            .values()
            .map(Group::len)
            .sum::<usize>()
    };
    assert_eq!(count(&[one.clone(), two]), 2);
    assert_eq!(count(&[one.clone(), one]), 1);
}

#[test]
fn each_family_is_written_by_itself() {
    // A3: what goes wrong in a list is the end of that list alone.
    let both = json!([{ "ip": "192.0.2.1" }, { "ip": "fd00::1" }]);
    let vm = workload("vm", "", &[("/spec/workloadIPs", both)]);
    let service = web(&[("/spec/ipFamilies", json!(["IPv4", "IPv6"]))]);
    let lists = plan(&service, &[], &desired(&service, &[vm]));
    let families = lists.iter().map(|list| {
        let families = list.iter().map(|write| match write {
            Write::Create(content) => content.family.unwrap(),
            other => panic!("{other:?}"),
        });
        families.collect::<Vec<_>>()
    });
    assert_eq!(families.collect::<Vec<_>>(), [[Family::V4], [Family::V6]]);
}
