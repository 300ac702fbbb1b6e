//! Requests of agent and controller to the API, and their rights in `deploy`.

use std::{collections::BTreeSet, fs, path::Path};

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};
use shunt_tests::{ApiServer, Sandbox, addresses, wait_until};

use crate::{
    controller::{Cluster, LEASE},
    objects::{and, node, ready, service, slice},
    route_objects::{
        GRANTS, SERVERS, SERVICE_PROFILES, TCP_ROUTES, TRAFFIC_SPLITS, UDP_ROUTES, backend,
        definition, route, tcp_route,
    },
    workload_objects::{LINKERDS, WORKLOADS},
    world::{Pods, SOON, World, tcp},
};

/// A group, a resource and a verb.
type Right = (String, String, String);

/// The right that a request needs.
fn needed(method: &str, uri: &str) -> Right {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let mut parts = path.trim_start_matches('/').split('/');
    let (group, mut rest): (&str, Vec<&str>) = match parts.next() {
        Some("api") => ("", parts.skip(1).collect()),
        Some("apis") => (parts.next().unwrap(), parts.skip(1).collect()),
        other => panic!("{other:?}: {uri}"),
    };
    if rest[0] == "namespaces" {
        rest.drain(..2);
    }
    let verb = match (method, rest.len()) {
        ("GET", 1) if query.split('&').any(|part| part == "watch=true") => "watch",
        ("GET", 1) => "list",
        ("GET", 2) => "get",
        ("POST", 1) => "create",
        ("PATCH", 2 | 3) => "patch",
        ("PUT", 2) => "update",
        ("DELETE", 2) => "delete",
        _ => panic!("{method} {uri}"),
    };
    let resource = match *rest {
        [plural, _, part] => format!("{plural}/{part}"),
        [plural, ..] => plural.to_owned(),
        [] => panic!("{method} {uri}"),
    };
    (group.to_owned(), resource, verb.to_owned())
}

/// Returns the rights in a manifest of a role.
fn allowed(file: &str) -> BTreeSet<Right> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy")
        .join(file);
    let role: Value = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let rules: Vec<PolicyRule> = serde_json::from_value(role["rules"].clone()).unwrap();
    let mut allowed = BTreeSet::new();
    for rule in rules {
        let PolicyRule {
            api_groups,
            resources,
            verbs,
            resource_names,
            non_resource_urls: None,
        } = rule
        else {
            panic!("{rule:?}");
        };
        // Of one object alone there is the Lease.
        assert!(resource_names.is_none_or(|names| names == [LEASE]));
        for group in api_groups.unwrap() {
            for resource in resources.iter().flatten() {
                for verb in &verbs {
                    let right = (group.clone(), resource.clone(), verb.clone());
                    assert!(allowed.insert(right), "{group} {resource} {verb} twice");
                }
            }
        }
    }
    allowed
}

#[test]
fn the_manifests_allow_exactly_what_the_agent_asks_for() {
    let prepare = |_: &Sandbox, server: &ApiServer| {
        let spec = json!({ "podCIDRs": [addresses::POD_CIDR, addresses::POD_CIDR_V6] });
        server.put(and(node("node-1", addresses::NODE), "", "spec", spec));
        for kind in [TCP_ROUTES, UDP_ROUTES, GRANTS] {
            server.put(definition(kind, &["v1"]));
        }
        for kind in [TRAFFIC_SPLITS, SERVICE_PROFILES] {
            server.put(definition(kind, &["v1alpha2"]));
        }
        server.put(definition(WORKLOADS, &["v1alpha1"]));
        server.put(definition(LINKERDS, &["v1beta1"]));
        server.put(definition(SERVERS, &["v1beta3"]));
        server.put(service("old", "10.96.0.10"));
        server.put(slice("old", "4", &[ready(addresses::POD_A)]));
    };
    let flags = [
        "--detect-local-mode",
        "NodeCIDR",
        "--remote-node-ports",
        "--lookup-pods",
        "all",
    ];
    let Some(world) = World::start(&flags, Pods::ByNode, prepare) else {
        return;
    };
    world.await_pods(world.pod(), tcp("10.96.0.10", 80), &["pod-a"]);
    // An Event that is made, and one that is counted up.
    let other = service("new", "10.96.0.10");
    for count in [json!(null), json!(2)] {
        world.server.put(other.clone());
        wait_until("users are told", SOON, || {
            let events = world.server.events();
            (events.len() == 1 && events[0]["series"]["count"] == count).then_some(())
        })
        .unwrap();
        world.server.delete(&other);
        wait_until("the conflict is over", SOON, || {
            let status = world.shunt("status");
            (status["conflicts"] == json!([])).then_some(())
        })
        .unwrap();
    }
    let asked = world.server.asked();
    let asked = asked.iter().map(|(method, uri)| needed(method, uri));
    let mut expected = allowed("base/cluster-role.yaml");
    expected.extend(allowed("lookup-pods/cluster-role.yaml"));
    assert_eq!(asked.collect::<BTreeSet<Right>>(), expected);
}

#[test]
fn the_manifests_allow_exactly_what_the_controller_asks_for() {
    let Some(cluster) = Cluster::new("controller-rights") else {
        return;
    };
    let tcp = tcp_route("r", 1, &[backend("v1", 1)]);
    let udp = route(("UDPRoute", "v1"), "r", 1, "web", &[backend("v1", 1)]);
    cluster.server.put(tcp.clone());
    cluster.server.put(udp.clone());
    cluster.prepare_workloads();
    let both = [
        "--external-workloads",
        "shunt,linkerd",
        "--probe=shunt,linkerd",
    ];
    let one = cluster.start_with("one", 18_130, &both);
    cluster.await_workloads(&one.process);
    cluster.await_reasons(&tcp, &["Accepted@1 ResolvedRefs@1"]);
    cluster.await_reasons(&udp, &["NoMatchingParent@1 BackendNotFound@1"]);
    assert!(one.process.stop().unwrap().success());
    let asked = cluster.server.asked();
    let asked = asked.iter().map(|(method, uri)| needed(method, uri));
    let mut expected = allowed("controller/cluster-role.yaml");
    expected.extend(allowed("controller/role.yaml"));
    assert_eq!(asked.collect::<BTreeSet<Right>>(), expected);
}
