//! Routes, and what goes with them, as objects of the API.

use serde_json::{Value, json};

/// Plural and group of Gateway API's TCPRoutes.
pub const TCP_ROUTES: (&str, &str) = ("tcproutes", "gateway.networking.k8s.io");

/// Plural and group of Gateway API's UDPRoutes.
pub const UDP_ROUTES: (&str, &str) = ("udproutes", "gateway.networking.k8s.io");

/// Plural and group of Gateway API's ReferenceGrants.
pub const GRANTS: (&str, &str) = ("referencegrants", "gateway.networking.k8s.io");

/// Plural and group of SMI's TrafficSplits.
pub const TRAFFIC_SPLITS: (&str, &str) = ("trafficsplits", "split.smi-spec.io");

/// Plural and group of linkerd's ServiceProfiles.
pub const SERVICE_PROFILES: (&str, &str) = ("serviceprofiles", "linkerd.io");

/// Plural and group of linkerd's Servers.
pub const SERVERS: (&str, &str) = ("servers", "policy.linkerd.io");

/// The definition of a kind that is served in these versions.
pub fn definition((plural, group): (&str, &str), versions: &[&str]) -> Value {
    let versions = versions.iter();
    let versions: Vec<Value> = versions
        .map(|name| json!({ "name": name, "served": true }))
        .collect();
    json!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": { "group": group, "versions": versions },
    })
}

/// A Server of linkerd that makes this port opaque of pods with a label `app`.
pub fn opaque_server(name: &str, app: &str, port: Value) -> Value {
    let mut server = json!({
        "kind": "Server", "apiVersion": "policy.linkerd.io/v1beta3",
        "metadata": { "namespace": "default", "name": name },
        "spec": {
            "podSelector": { "matchLabels": { "app": app } }, "proxyProtocol": "opaque",
        },
    });
    server["spec"]["port"] = port;
    server
}

/// A route of `kind` in this version and the namespace `default`, made on this day of a month, for all
/// ports of a Service, with these backends.
pub fn route(
    (kind, version): (&str, &str),
    name: &str,
    day: u8,
    parent: &str,
    backends: &[Value],
) -> Value {
    json!({
        "kind": kind, "apiVersion": format!("gateway.networking.k8s.io/{version}"),
        "metadata": {
            "namespace": "default", "name": name,
            "creationTimestamp": format!("2026-01-{day:02}T00:00:00Z"),
        },
        "spec": {
            "parentRefs": [{ "group": "", "kind": "Service", "name": parent }],
            "rules": [{ "backendRefs": backends }],
        },
    })
}

/// A TCPRoute (v1) for the Service `web`.
pub fn tcp_route(name: &str, day: u8, backends: &[Value]) -> Value {
    route(("TCPRoute", "v1"), name, day, "web", backends)
}

/// Port 80 of a Service as a backend with a weight.
pub fn backend(name: &str, weight: u32) -> Value {
    json!({ "name": name, "port": 80, "weight": weight })
}

/// That of another namespace.
pub fn backend_in(namespace: &str, name: &str, weight: u32) -> Value {
    json!({ "namespace": namespace, "name": name, "port": 80, "weight": weight })
}

/// Lets the TCPRoutes of `default` refer to the Services of this namespace.
pub fn grant(namespace: &str) -> Value {
    json!({
        "kind": "ReferenceGrant", "apiVersion": "gateway.networking.k8s.io/v1",
        "metadata": { "namespace": namespace, "name": "to-default" },
        "spec": {
            "from": [{
                "group": "gateway.networking.k8s.io", "kind": "TCPRoute", "namespace": "default",
            }],
            "to": [{ "group": "", "kind": "Service" }],
        },
    })
}

/// A TrafficSplit of the Service `web`.
pub fn traffic_split(backends: &[(&str, u32)]) -> Value {
    let backends = backends.iter();
    let backends: Vec<Value> = backends
        .map(|(service, weight)| json!({ "service": service, "weight": weight }))
        .collect();
    json!({
        "kind": "TrafficSplit", "apiVersion": "split.smi-spec.io/v1alpha2",
        "metadata": {
            "namespace": "default", "name": "web",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": { "service": "web", "backends": backends },
    })
}

/// A ServiceProfile of the Service `web`, all of whose traffic goes to this Service.
pub fn service_profile(instead: &str) -> Value {
    let authority = format!("{instead}.default.svc.cluster.local:80");
    json!({
        "kind": "ServiceProfile", "apiVersion": "linkerd.io/v1alpha2",
        "metadata": {
            "namespace": "default", "name": "web.default.svc.cluster.local",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "routes": [],
            "dstOverrides": [{ "authority": authority, "weight": "1" }],
        },
    })
}
