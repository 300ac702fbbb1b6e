//! The defaults that a server writes into an object before it stores it.

use serde_json::{Value, json};

use super::kind::Kind;

/// Writes the defaults of its kind into an object.
pub(super) fn write_defaults(kind: Kind, object: &mut Value) {
    match kind {
        Kind::EndpointSlice => slice(object),
        Kind::Service => service(object),
        Kind::ExternalWorkload => workload(object),
        Kind::TcpRoute | Kind::UdpRoute => route(object),
        _ => {}
    }
}

/// Kubernetes, `pkg/apis/discovery/v1/defaults.go`.
fn slice(slice: &mut Value) {
    for port in each(slice, "/ports") {
        default(port, "name", "");
        default(port, "protocol", "TCP");
    }
}

/// Kubernetes, `pkg/apis/core/v1/defaults.go`, `SetDefaults_Service`.
fn service(service: &mut Value) {
    let Some(spec) = service.get_mut("spec") else {
        return;
    };
    for port in each(spec, "/ports") {
        default(port, "protocol", "TCP");
        let number = port["port"].clone();
        default(port, "targetPort", number);
    }
    default(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "ClientIP" {
        let seconds = "/sessionAffinityConfig/clientIP/timeoutSeconds";
        if spec.pointer(seconds).is_none() {
            spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"] = json!(10_800);
        }
    }
    default(spec, "type", "ClusterIP");
    let is = |kind: &str| spec["type"] == kind;
    let (is_balanced, is_external_name) = (is("LoadBalancer"), is("ExternalName"));
    let external = spec["externalIPs"].as_array();
    let has_external = external.is_some_and(|addresses| !addresses.is_empty());
    if is_balanced || is("NodePort") || is("ClusterIP") && has_external {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if !is_external_name {
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    if is_balanced {
        default(spec, "allocateLoadBalancerNodePorts", true);
        for ingress in each(service, "/status/loadBalancer/ingress") {
            if ingress["ip"].is_string() {
                default(ingress, "ipMode", "VIP");
            }
        }
    }
}

/// The definition in `deploy/definitions/external-workloads.yaml`.
fn workload(workload: &mut Value) {
    for port in each(workload, "/spec/ports") {
        default(port, "protocol", "TCP");
    }
    let Some(probe) = workload.pointer_mut("/spec/readinessProbe") else {
        return;
    };
    for (field, number) in [
        ("periodSeconds", 10),
        ("timeoutSeconds", 1),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        default(probe, field, number);
    }
    if let Some(get) = probe.get_mut("httpGet") {
        default(get, "path", "/");
    }
}

/// Gateway API, `apis/v1/shared_types.go` and `apis/v1/object_reference_types.go`.
fn route(route: &mut Value) {
    for parent in each(route, "/spec/parentRefs") {
        default(parent, "group", "gateway.networking.k8s.io");
        default(parent, "kind", "Gateway");
    }
    for rule in each(route, "/spec/rules") {
        for backend in each(rule, "/backendRefs") {
            default(backend, "group", "");
            default(backend, "kind", "Service");
            default(backend, "weight", 1);
        }
    }
}

/// The elements of the list in this place, if there is one.
fn each<'a>(object: &'a mut Value, path: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = object.pointer_mut(path).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

/// Adds a field that an object does not have.
fn default(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(fields) = object.as_object_mut()
        && fields.get(field).is_none_or(Value::is_null)
    {
        fields.insert(field.to_owned(), value.into());
    }
}
