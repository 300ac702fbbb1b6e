//! What the agent asks of the API, and what `deploy` allows it to.

use std::{collections::BTreeSet, fs, path::Path};

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use serde_json::json;
use shunt_tests::{ApiServer, addresses, wait_until};

use crate::{
    objects::{and, node, ready, service, slice},
    world::{SOON, World, tcp},
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
        ("PATCH", 2) => "patch",
        _ => panic!("{method} {uri}"),
    };
    (group.to_owned(), rest[0].to_owned(), verb.to_owned())
}

/// Those of the manifest.
fn allowed() -> BTreeSet<Right> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/base/cluster-role.yaml");
    let role: ClusterRole = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let mut allowed = BTreeSet::new();
    for rule in role.rules.unwrap() {
        let PolicyRule {
            api_groups,
            resources,
            verbs,
            resource_names: None,
            non_resource_urls: None,
        } = rule
        else {
            panic!("{rule:?}");
        };
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
fn the_manifest_allows_exactly_what_the_agent_asks_for() {
    let prepare = |server: &ApiServer| {
        let spec = json!({ "podCIDRs": [addresses::POD_CIDR, addresses::POD_CIDR_V6] });
        server.put(and(node("node-1", addresses::NODE), "", "spec", spec));
        server.put(service("old", "10.96.0.10"));
        server.put(slice("old", "4", &[ready(addresses::POD_A)]));
    };
    let flags = ["--detect-local-mode", "NodeCIDR", "--remote-node-ports"];
    let Some(world) = World::with(&flags, prepare) else {
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
    assert_eq!(asked.collect::<BTreeSet<Right>>(), allowed());
}
