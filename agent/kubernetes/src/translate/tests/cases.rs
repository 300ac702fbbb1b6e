//! Cases of choosing endpoints that were recorded from kube-proxy, if there are any here.
//!
//! `SHUNT_CASES` names the folder with `kube-proxy-topology.json`.

use std::{collections::BTreeSet, env, fs, path::Path};

use serde::Deserialize;
use serde_json::{Value, json};
use shunt_model::{
    BackendSet, FrontendKind, NodeAddresses, Refusal, RenderOptions, TrafficPolicy, render,
};
use shunt_skip::skip;

use super::world::World;

/// A state of endpoints and kube-proxy's result for it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: String,
    prefer_same_traffic_distribution: bool,
    node_name: Option<String>,
    zone: Option<String>,
    service_port: Port,
    endpoints: Vec<Endpoint>,
    cluster_endpoints: Option<BTreeSet<String>>,
    local_endpoints: Option<BTreeSet<String>>,
    has_any_endpoints: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    internal_policy_local: bool,
    external_policy_local: bool,
    node_port: u16,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    endpoint: String,
    ready: bool,
    serving: bool,
    terminating: bool,
    is_local: bool,
    #[serde(default)]
    zone_hints: Option<Vec<String>>,
    #[serde(default)]
    node_hints: Option<Vec<String>>,
}

impl Case {
    /// The same as objects of the API.
    fn world(&self) -> World {
        let local = self.node_name.as_deref().filter(|name| !name.is_empty());
        let local = local.unwrap_or("here");
        let policy = |is_local| if is_local { "Local" } else { "Cluster" };
        let Port {
            internal_policy_local,
            external_policy_local,
            node_port,
        } = self.service_port;
        let mut world =
            World::new().node(local, self.zone.as_deref().filter(|zone| !zone.is_empty()));
        world = world.spec(json!({
            "type": "NodePort",
            "internalTrafficPolicy": policy(internal_policy_local),
            "externalTrafficPolicy": policy(external_policy_local),
            "ports": [{ "name": "http", "port": 80, "nodePort": node_port }],
        }));
        for endpoint in &self.endpoints {
            let (ip, port) = endpoint.endpoint.rsplit_once(':').unwrap();
            let port: u16 = port.parse().unwrap();
            let names = |hints: &Option<Vec<String>>| -> Vec<Value> {
                let hints = hints.iter().flatten();
                hints.map(|name| json!({ "name": name })).collect()
            };
            let nodes = if self.prefer_same_traffic_distribution {
                names(&endpoint.node_hints)
            } else {
                Vec::new()
            };
            world = world.slice_of(
                "IPv4",
                json!([{ "name": "http", "port": port }]),
                json!([{
                    "addresses": [ip],
                    "nodeName": if endpoint.is_local { local } else { "elsewhere" },
                    "conditions": {
                        "ready": endpoint.ready,
                        "serving": endpoint.serving,
                        "terminating": endpoint.terminating,
                    },
                    "hints": { "forZones": names(&endpoint.zone_hints), "forNodes": nodes },
                }]),
            );
        }
        world
    }

    /// Returns the errors of our answer.
    fn complaints(&self) -> Vec<String> {
        let model = self.world().model();
        let node: BTreeSet<_> = [[192, 0, 2, 1].into()].into();
        let options = RenderOptions {
            node_ips: node.clone(),
            ..RenderOptions::default()
        };
        let nodes = NodeAddresses::new(node, &options);
        let frontends = render(&model, &|_| None, &nodes, &options.balancing).unwrap();
        let mut complaints = Vec::new();
        for (key, frontend) in frontends {
            if key.address.is_ipv6() {
                continue;
            }
            let expected = match frontend.policy {
                TrafficPolicy::Cluster => &self.cluster_endpoints,
                TrafficPolicy::Local => &self.local_endpoints,
            };
            let expected = expected.clone().unwrap_or_default();
            let found = taking(&frontend.backends);
            if found != expected {
                complaints.push(format!(
                    "{key} ({:?}): {found:?}, not {expected:?}",
                    frontend.policy
                ));
            }
            let refuses = frontend.refusal == Refusal::Reject;
            if refuses == self.has_any_endpoints {
                complaints.push(format!("{key}: {:?}", frontend.refusal));
            }
            // Clients of this node are served as under policy Cluster.
            if frontend.kind == FrontendKind::NodePort && frontend.policy == TrafficPolicy::Local {
                let this_node = frontend.this_node.as_deref().unwrap_or(&frontend);
                let found = taking(&this_node.backends);
                let expected = self.cluster_endpoints.clone().unwrap_or_default();
                if found != expected {
                    complaints.push(format!("{key}, this node: {found:?}, not {expected:?}"));
                }
            }
        }
        complaints
    }
}

/// The backends that take new connections.
fn taking(set: &BackendSet) -> BTreeSet<String> {
    let backends = set.backends.iter().filter(|backend| backend.weight > 0);
    backends
        .map(|backend| format!("{}:{}", backend.ip, backend.port))
        .collect()
}

#[test]
fn endpoints_are_chosen_as_kube_proxy_does() {
    let Some(folder) = env::var_os("SHUNT_CASES") else {
        skip("SHUNT_CASES names no folder of recorded cases");
        return;
    };
    let path = Path::new(&folder).join("kube-proxy-topology.json");
    let text = fs::read_to_string(&path).unwrap();
    let cases: Vec<Case> = serde_json::from_str(&text).unwrap();
    assert!(!cases.is_empty());
    let mut wrong = Vec::new();
    for case in &cases {
        let complaints = case.complaints();
        if !complaints.is_empty() {
            wrong.push(format!("{}: {complaints:#?}", case.name));
        }
    }
    println!(
        "{} of {} cases agree",
        cases.len() - wrong.len(),
        cases.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
