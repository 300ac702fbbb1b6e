//! Valid objects of each kind, with a value for each field that is read.

use serde_json::{Value, json};

/// Names of the kinds.
pub(crate) const KINDS: [&str; 14] = [
    "Services",
    "EndpointSlices",
    "ServiceCIDRs",
    "Nodes",
    "CustomResourceDefinitions",
    "TCPRoutes",
    "UDPRoutes",
    "ReferenceGrants",
    "TrafficSplits",
    "ServiceProfiles",
    "ExternalWorkloads",
    "ExternalWorkloads of linkerd",
    "Pods",
    "Servers of linkerd",
];

/// Returns an object of the kind of this name. `number` is in its addresses.
pub(crate) fn example(kind: &str, namespace: &str, name: &str, number: u8) -> Value {
    let mut object = match kind {
        "Services" => service(number),
        "EndpointSlices" => slice(number),
        "ServiceCIDRs" => json!({ "spec": { "cidrs": [format!("10.{number}.0.0/16")] } }),
        "Nodes" => node(number),
        "CustomResourceDefinitions" => json!({}),
        "TCPRoutes" | "UDPRoutes" => json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "spec": {
                "parentRefs": [{ "group": "", "kind": "Service", "name": name, "port": 80 }],
                "rules": [{ "backendRefs": [{
                    "group": "", "kind": "Service", "namespace": namespace, "name": name, "port": 80,
                    "weight": number,
                }] }],
            },
            "status": { "parents": [{ "conditions": [{ "type": "Accepted", "status": "True" }] }] },
        }),
        "ReferenceGrants" => json!({ "spec": {
            "from": [{ "group": "gateway.networking.k8s.io", "kind": "TCPRoute", "namespace": namespace }],
            "to": [{ "group": "", "kind": "Service", "name": name }],
        } }),
        "TrafficSplits" => json!({ "spec": {
            "service": name, "backends": [{ "service": name, "weight": number }],
        } }),
        "ServiceProfiles" => profile(namespace, name, number),
        "ExternalWorkloads" | "ExternalWorkloads of linkerd" => workload(number),
        "Pods" => pod(number),
        "Servers of linkerd" => json!({ "spec": {
            "podSelector": {
                "matchLabels": { "app": "web" },
                "matchExpressions": [{ "key": "app", "operator": "In", "values": ["web"] }],
            },
            "externalWorkloadSelector": { "matchLabels": { "app": "web" } },
            "port": "http", "proxyProtocol": "opaque",
        } }),
        other => panic!("{other} has no example"),
    };
    object["metadata"] = metadata(namespace, name);
    object
}

fn metadata(namespace: &str, name: &str) -> Value {
    json!({
        "namespace": namespace, "name": name, "uid": format!("uid-{name}"), "resourceVersion": "7",
        "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {
            "kubernetes.io/service-name": name, "topology.kubernetes.io/zone": "z", "app": "web",
            "linkerd.io/control-plane-ns": "linkerd",
        },
        "annotations": {
            "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:01Z",
            "service.shunt.io/selection": "maglev", "service.shunt.io/forwarding": "dsr",
            "config.linkerd.io/opaque-ports": "80,http,90-99",
            "config.linkerd.io/skip-inbound-ports": "25",
            "workload.shunt.io/readiness-probe": "{\"tcpSocket\":{\"port\":80}}",
            "service.kubernetes.io/topology-mode": "Auto",
        },
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "Service", "name": name, "uid": format!("uid-{name}"),
            "controller": true,
        }],
    })
}

fn service(number: u8) -> Value {
    json!({
        "spec": {
            "type": "LoadBalancer", "selector": { "app": "web" },
            "clusterIP": format!("10.96.0.{number}"),
            "clusterIPs": [format!("10.96.0.{number}"), format!("fd00:96::{number}")],
            "ipFamilies": ["IPv4", "IPv6"], "externalIPs": [format!("203.0.113.{number}")],
            "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster",
            "loadBalancerSourceRanges": ["192.0.2.0/24"], "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 7 } },
            "healthCheckNodePort": 31_000 + u32::from(number), "trafficDistribution": "PreferClose",
            "publishNotReadyAddresses": false,
            "ports": [{
                "name": "http", "port": 80, "protocol": "TCP", "nodePort": 30_000 + u32::from(number),
                "targetPort": 8080, "appProtocol": "http",
            }],
        },
        "status": { "loadBalancer": { "ingress": [{ "ip": "198.51.100.8", "ipMode": "VIP" }] } },
    })
}

fn slice(number: u8) -> Value {
    json!({
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "http" }],
        "endpoints": [{
            "addresses": [format!("10.1.1.{number}")], "nodeName": "n", "zone": "z", "hostname": "h",
            "conditions": { "ready": true, "serving": true, "terminating": false },
            "hints": { "forZones": [{ "name": "z" }], "forNodes": [{ "name": "n" }] },
            "targetRef": { "kind": "Pod", "namespace": "a", "name": "web", "uid": "u" },
        }],
    })
}

fn node(number: u8) -> Value {
    json!({
        "spec": { "podCIDRs": ["10.1.1.0/24"], "taints": [{ "key": "k" }] },
        "status": {
            "addresses": [
                { "type": "InternalIP", "address": format!("192.0.2.{number}") },
                { "type": "ExternalIP", "address": format!("2001:db8::{number}") },
            ],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10_250 } },
        },
    })
}

fn profile(namespace: &str, name: &str, number: u8) -> Value {
    json!({ "spec": {
        "dstOverrides": [
            { "authority": format!("{name}.{namespace}.svc.cluster.local:80"), "weight": "500m" },
            { "authority": format!("{name}.{namespace}.svc.cluster.local"), "weight": number },
        ],
        "retryBudget": { "retryRatio": 0.2, "minRetriesPerSecond": 10, "ttl": "10s" },
        "routes": [{
            "name": "GET /", "timeout": "300ms", "isRetryable": true,
            "condition": { "any": [{ "method": "GET", "pathRegex": "/.*" }] },
            "responseClasses": [{
                "isFailure": true, "condition": { "not": { "all": [{ "status": { "min": 500, "max": 599 } }] } },
            }],
        }],
    } })
}

fn workload(number: u8) -> Value {
    json!({
        "spec": {
            "workloadIPs": [{ "ip": format!("172.16.0.{number}") }, { "ip": format!("fd00:5::{number}") }],
            "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
            "meshTLS": { "identity": "i", "serverName": "s" },
            "readinessProbe": {
                "httpGet": { "port": 8080, "path": "/ready", "httpHeaders": [{ "name": "Host", "value": "h" }] },
                "periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3,
            },
        },
        "status": { "conditions": [{
            "type": "Ready", "status": "True", "reason": "r", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }] },
    })
}

fn pod(number: u8) -> Value {
    json!({
        "spec": {
            "nodeName": "here", "hostNetwork": false, "serviceAccountName": "web",
            "initContainers": [{ "ports": [{ "containerPort": 1 }] }],
            "containers": [{
                "name": "linkerd-proxy",
                "env": [{ "name": "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "value": "0.0.0.0:4143" }],
                "ports": [{
                    "name": "http", "protocol": "TCP", "containerPort": 80, "hostPort": 8000, "hostIP": "192.0.2.1",
                }],
            }],
        },
        "status": {
            "phase": "Running", "podIP": format!("10.1.1.{number}"),
            "podIPs": [{ "ip": format!("10.1.1.{number}") }], "hostIP": "192.0.2.1",
            "hostIPs": [{ "ip": "192.0.2.1" }],
        },
    })
}
