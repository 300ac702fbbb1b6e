//! Objects of the API.

use std::net::IpAddr;

use crate::addresses;
use serde_json::{Value, json};

/// This node's name, in another form than its Node has it.
pub const NODE_NAME: &str = "Node-1";

/// The port of every server.
pub const SERVED: u16 = 8080;

/// A ClusterIP service of both families with the port `http`: 80 to [`SERVED`].
///
/// # Panics
///
/// If `cluster_ip` is no address.
pub fn service(name: &str, cluster_ip: &str) -> Value {
    let v6 = addresses::v6(cluster_ip.parse().unwrap());
    json!({
        "kind": "Service", "apiVersion": "v1",
        "metadata": {
            "namespace": "default", "name": name, "uid": format!("uid-{name}"), "labels": {},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "type": "ClusterIP", "clusterIP": cluster_ip, "clusterIPs": [cluster_ip, v6],
            "ipFamilies": ["IPv4", "IPv6"],
            "ports": [{ "name": "http", "port": 80, "protocol": "TCP", "targetPort": "web" }],
        },
    })
}

/// A ServiceCIDR of these ranges.
pub fn service_cidr(name: &str, cidrs: &[&str]) -> Value {
    json!({
        "kind": "ServiceCIDR", "apiVersion": "networking.k8s.io/v1",
        "metadata": { "name": name }, "spec": { "cidrs": cidrs },
    })
}

/// The object with this value in the place that the path names.
///
/// # Panics
///
/// If it has no such place.
pub fn with(mut object: Value, path: &str, value: impl Into<Value>) -> Value {
    *object
        .pointer_mut(path)
        .unwrap_or_else(|| panic!("no {path}")) = value.into();
    object
}

/// The object with another field in the place that the path names.
///
/// # Panics
///
/// If it has no such place.
pub fn and(mut object: Value, path: &str, name: &str, value: impl Into<Value>) -> Value {
    object
        .pointer_mut(path)
        .unwrap_or_else(|| panic!("no {path}"))[name] = value.into();
    object
}

/// A slice of a service with these endpoints, which are of one family.
///
/// # Panics
///
/// If the first endpoint has no address.
pub fn slice(service: &str, name: &str, endpoints: &[Value]) -> Value {
    let is_v6 = endpoints.first().is_some_and(|endpoint| {
        let address = endpoint["addresses"][0].as_str().unwrap();
        address.contains(':')
    });
    json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
        "metadata": {
            "namespace": "default", "name": format!("{service}-{name}"),
            "labels": { "kubernetes.io/service-name": service },
        },
        "addressType": if is_v6 { "IPv6" } else { "IPv4" },
        "ports": [{ "name": "http", "port": SERVED, "protocol": "TCP" }],
        "endpoints": endpoints,
    })
}

/// A ready endpoint.
pub fn ready(address: IpAddr) -> Value {
    endpoint(
        address,
        &json!({ "ready": true, "serving": true, "terminating": false }),
    )
}

/// An endpoint on its way out.
pub fn terminating(address: IpAddr) -> Value {
    endpoint(
        address,
        &json!({ "ready": false, "serving": true, "terminating": true }),
    )
}

fn endpoint(address: IpAddr, conditions: &Value) -> Value {
    let remote = [addresses::POD_D, addresses::v6(addresses::POD_D)];
    let node = if remote.contains(&address) {
        "node-2"
    } else {
        "node-1"
    };
    json!({ "addresses": [address], "conditions": conditions, "nodeName": node })
}

/// A Node with an internal address of each family.
pub fn node(name: &str, address: IpAddr) -> Value {
    json!({
        "kind": "Node", "apiVersion": "v1",
        "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": "a" } },
        "status": { "addresses": [
            { "type": "InternalIP", "address": address },
            { "type": "InternalIP", "address": addresses::v6(address) },
            { "type": "Hostname", "address": name },
        ] },
    })
}
