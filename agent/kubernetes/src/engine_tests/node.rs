//! Effects of the node, its interfaces and the cluster's ranges.

use std::net::IpAddr;

use serde_json::json;
use shunt_model::RendererEvent;
use shunt_runtime::Consequences;

use super::world::{World, node, service, slice_of};
use crate::{
    engine::{Change, Work},
    watch::step::Step,
};

#[test]
fn another_zone_of_this_node_chooses_other_endpoints() {
    let mut world = World::synced();
    world.engine.take(Change::Service(service(
        "web",
        "2026-01-01T00:00:00Z",
        json!({}),
    )));
    let hinted = serde_json::from_value(json!({
        "metadata": {
            "namespace": "default", "name": "web-1",
            "labels": { "kubernetes.io/service-name": "web" },
        },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": 8080 }],
        "endpoints": [
            { "addresses": ["10.0.0.1"], "hints": { "forZones": [{ "name": "a" }] } },
            { "addresses": ["10.0.0.2"], "hints": { "forZones": [{ "name": "b" }] } },
        ],
    }));
    world
        .engine
        .take(Change::EndpointSlice(Step::Applied(hinted.unwrap())));
    assert_eq!(world.events().len(), 1);
    world
        .engine
        .take(Change::Node(node("there", "b", "192.0.2.2")));
    assert_eq!(
        world.events(),
        ["UpdateNodePortServices {192.0.2.1, 192.0.2.2}"]
    );
    world
        .engine
        .take(Change::Node(node("here", "b", "192.0.2.1")));
    assert_eq!(
        world.events(),
        ["UpdateService default/web 10.0.0.1 10.0.0.2"]
    );
}

#[test]
fn node_ports_follow_the_node_and_its_interfaces() {
    let mut world = World::synced();
    world
        .engine
        .take(Change::Node(node("here", "a", "192.0.2.9")));
    assert_eq!(world.events(), ["UpdateNodePortServices {192.0.2.9}"]);
    world
        .engine
        .set_host_addresses([[192, 0, 2, 1].into()].into());
    assert_eq!(world.events(), ["UpdateNodePortServices {}"]);
    world
        .engine
        .set_host_addresses([[192, 0, 2, 9].into()].into());
    assert_eq!(world.events(), ["UpdateNodePortServices {192.0.2.9}"]);
    // A Node that is removed takes nothing away.
    let Step::Applied(here) = node("here", "a", "192.0.2.9") else {
        unreachable!("it was applied");
    };
    world.engine.take(Change::Node(Step::Deleted(here)));
    assert_eq!(world.events(), [] as [&str; 0]);
    assert!(!world.state().node.found);
}

#[test]
fn a_cluster_ip_on_an_interface_is_no_address_of_the_node() {
    let mut world = World::with(|options| {
        options.node_port_addresses = "0.0.0.0/0".parse().unwrap();
    });
    world.list_nothing();
    world
        .engine
        .take(Change::Node(node("here", "a", "192.0.2.9")));
    assert_eq!(world.events().len(), 1);
    let addresses = [[192, 0, 2, 9], [10, 96, 0, 10], [10, 97, 0, 1]].map(IpAddr::from);
    world
        .engine
        .set_host_addresses(addresses.into_iter().collect());
    let all = "UpdateNodePortServices {10.96.0.10, 10.97.0.1, 192.0.2.9}";
    assert_eq!(world.events(), [all]);
    let cluster_ip = json!({ "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"] });
    world.engine.take(Change::Service(service(
        "web",
        "2026-01-01T00:00:00Z",
        cluster_ip,
    )));
    let without_one = "UpdateNodePortServices {10.97.0.1, 192.0.2.9}";
    assert!(world.events().contains(&without_one.to_owned()));
    let range = json!({ "metadata": { "name": "one" }, "spec": { "cidrs": ["10.97.0.0/16"] } });
    let range = serde_json::from_value(range).unwrap();
    world.engine.take(Change::ServiceCidr(Step::Applied(range)));
    let without_both = "UpdateNodePortServices {192.0.2.9}";
    assert!(world.events().contains(&without_both.to_owned()));
}

#[test]
fn the_ranges_of_cluster_ips_are_united() {
    let mut world = World::synced();
    let cidr = |name: &str, cidrs: &[&str]| {
        let value = json!({ "metadata": { "name": name }, "spec": { "cidrs": cidrs } });
        Change::ServiceCidr(Step::Applied(serde_json::from_value(value).unwrap()))
    };
    let known = |world: &World| -> Vec<String> {
        let known = world.state().service_cidrs.unwrap();
        known.iter().map(ToString::to_string).collect()
    };
    world
        .engine
        .take(cidr("one", &["10.96.0.0/16", "fd00:96::/112"]));
    world
        .engine
        .take(cidr("two", &["10.96.0.0/16", "10.97.0.0/16"]));
    assert_eq!(
        known(&world),
        ["10.96.0.0/16", "10.97.0.0/16", "fd00:96::/112"]
    );
    let value = json!({ "metadata": { "name": "one" }, "spec": {} });
    let one = serde_json::from_value(value).unwrap();
    world.engine.take(Change::ServiceCidr(Step::Deleted(one)));
    assert_eq!(
        known(&world),
        ["10.96.0.0/16", "10.97.0.0/16"],
        "the other still has it"
    );
    assert_eq!(world.events(), ["UpdateServiceCidrs"]);
    assert_eq!(world.events(), [] as [&str; 0]);
}

#[test]
fn an_external_address_goes_when_cluster_ips_come_from_there() {
    let mut world = World::synced();
    let external = json!({ "externalIPs": ["10.97.3.4"] });
    world.engine.take(Change::Service(service(
        "web",
        "2026-01-01T00:00:00Z",
        external,
    )));
    let left_out = |world: &World| world.state().untranslated.len();
    assert_eq!(world.events().len(), 1);
    assert_eq!(left_out(&world), 0);
    let range = json!({ "metadata": { "name": "two" }, "spec": { "cidrs": ["10.97.0.0/16"] } });
    let range = serde_json::from_value(range).unwrap();
    world.engine.take(Change::ServiceCidr(Step::Applied(range)));
    assert_eq!(
        world.events(),
        ["UpdateServiceCidrs", "UpdateService default/web"]
    );
    assert_eq!(left_out(&world), 1);
}

#[test]
fn external_addresses_of_nodes_follow_where_kubelets_and_the_api_server_listen() {
    let kubelet = |port: u16| {
        let node = json!({
            "metadata": { "name": "here", "labels": { "topology.kubernetes.io/zone": "a" } },
            "status": {
                "addresses": [{ "type": "InternalIP", "address": "192.0.2.1" }],
                "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
            },
        });
        Change::Node(Step::Applied(serde_json::from_value(node).unwrap()))
    };
    let external = |port: u16| {
        let spec = json!({
            "externalIPs": ["192.0.2.1", "192.0.2.50", "192.0.2.51"],
            "ports": [{ "name": "http", "port": port }],
        });
        Change::Service(service("web", "2026-01-01T00:00:00Z", spec))
    };
    // Another Service of that name in another namespace does not count.
    let api_server = |namespace: &str, addresses: &[&str]| {
        let mut slice = slice_of("kubernetes", "kubernetes", addresses, json!({}));
        slice.id.namespace = namespace.into();
        slice.service.as_mut().unwrap().namespace = namespace.into();
        slice
    };
    let applied = |slice| Change::EndpointSlice(Step::Applied(slice));
    let left_out = |world: &mut World| {
        world.events();
        world
            .state()
            .untranslated
            .values()
            .flatten()
            .map(|text| text.split(' ').nth(1).unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let mut world = World::synced();
    world.engine.take(external(10250));
    assert_eq!(left_out(&mut world), ["192.0.2.1"]);
    world.engine.take(kubelet(10251));
    assert_eq!(left_out(&mut world), [""; 0]);
    world.engine.take(external(10251));
    assert_eq!(left_out(&mut world), ["192.0.2.1"]);

    world.engine.take(external(8080));
    assert_eq!(left_out(&mut world), [""; 0]);
    world
        .engine
        .take(applied(api_server("tenant", &["192.0.2.51"])));
    assert_eq!(left_out(&mut world), [""; 0]);
    let known = api_server("default", &["192.0.2.50"]);
    world.engine.take(applied(known.clone()));
    assert_eq!(left_out(&mut world), ["192.0.2.50"]);
    world
        .engine
        .take(applied(api_server("default", &["192.0.2.51"])));
    assert_eq!(left_out(&mut world), ["192.0.2.51"]);
    world
        .engine
        .take(Change::EndpointSlice(Step::Deleted(known.clone())));
    assert_eq!(left_out(&mut world), [""; 0]);
    // As where its slices are not among those of this proxy's Services.
    world.engine.take(Change::ApiServer(Step::listed(vec![
        known.clone(),
        api_server("tenant", &["192.0.2.51"]),
    ])));
    assert_eq!(left_out(&mut world), ["192.0.2.50"]);
    world.engine.take(Change::ApiServer(Step::Deleted(known)));
    assert_eq!(left_out(&mut world), [""; 0]);

    let mut world = World::with(|options| options.protects_host_ports = false);
    world.list_nothing();
    world.engine.take(kubelet(10250));
    world.engine.take(external(10250));
    assert_eq!(left_out(&mut world), [""; 0]);
}

#[test]
fn an_address_that_is_given_stands_in_place_of_the_nodes() {
    let mut world = World::with(|options| options.node_ip = Some([192, 0, 2, 9].into()));
    world.list_nothing();
    assert_eq!(world.events(), ["Resync  {192.0.2.9}"]);
    world
        .engine
        .take(Change::Node(node("here", "a", "192.0.2.1")));
    assert_eq!(world.events(), [""; 0]);
    let addresses: [IpAddr; 1] = [[192, 0, 2, 9].into()];
    assert_eq!(world.state().node.addresses, addresses);
}

#[test]
fn external_ips_are_served_unless_they_are_switched_off() {
    for external_ips in [true, false] {
        let mut world = World::with(|options| options.external_ips = external_ips);
        world.list_nothing();
        let spec = || json!({ "externalIPs": ["203.0.113.7"] });
        let Step::Applied(listed) = service("web", "2026-01-01T00:00:00Z", spec()) else {
            unreachable!("it is applied");
        };
        world
            .engine
            .take(Change::Service(Step::listed(vec![listed])));
        let Some(Work { event, about, .. }) = world.engine.next() else {
            panic!("the first event");
        };
        world.engine.done(about, Ok(Consequences::default()));
        let RendererEvent::Resync(snapshot) = event else {
            panic!("{event:?}");
        };
        let later = service("later", "2026-01-01T00:00:00Z", spec());
        world.engine.take(Change::Service(later));
        let Some(Work {
            event: RendererEvent::UpdateService(later),
            ..
        }) = world.engine.next()
        else {
            panic!("a change");
        };
        for service in [&snapshot.services[0], &later] {
            assert_eq!(!service.external_ips.is_empty(), external_ips);
            assert!(!service.cluster_ips.is_empty());
        }
    }
}

#[test]
fn other_ranges_of_the_node_end_what_was_begun_with_its_first() {
    let here = |ranges: &[&str]| {
        let value = json!({ "metadata": { "name": "here" }, "spec": { "podCIDRs": ranges } });
        Change::Node(Step::Applied(serde_json::from_value(value).unwrap()))
    };
    let first = vec!["10.1.1.0/24".parse().unwrap()];
    for (known, ranges, words) in [
        (None, &["10.1.2.0/24"][..], None),
        (Some(first.clone()), &["10.1.1.0/24"], None),
        (Some(first.clone()), &["10.1.1.0/24", "10.1.2.0/24"], None),
        (Some(first.clone()), &[], None),
        (
            Some(first),
            &["10.1.2.0/24"],
            Some("by 10.1.1.0/24, and its Node has 10.1.2.0/24 now"),
        ),
        (
            Some(Vec::new()),
            &["10.1.2.0/24"],
            Some("by no range, and its Node has 10.1.2.0/24 now"),
        ),
    ] {
        let mut world = World::new();
        world.engine.pods_are_known_by(known);
        assert_eq!(world.engine.outdated(), None);
        world.engine.take(here(ranges));
        let outdated = world.engine.outdated();
        assert_eq!(outdated.is_some(), words.is_some(), "{outdated:?}");
        let words = words.unwrap_or_default();
        assert!(outdated.unwrap_or_default().contains(words), "{words}");
    }
}
