//! linkerd's proxy in a Pod, as its injector leaves it there.

use std::{borrow::Cow, iter, net::SocketAddr, num::NonZeroU16};

use serde::{Deserialize, Deserializer};
use shunt_model::{Mesh, MeshIdentity};

use super::{
    labels::Labels,
    metadata::Annotations,
    names::{SharedName, shared},
    opaque_ports::opaque_ports,
};

/// The label of a Pod with the namespace of its control plane.
const CONTROL_PLANE: &str = "linkerd.io/control-plane-ns";

/// The name of the proxy's container, which may be an init container that goes on (a native sidecar).
const CONTAINER: &str = "linkerd-proxy";

/// The variable of that container with the address where the proxy takes connections of other proxies.
const LISTEN_ADDRESS: &str = "LINKERD2_PROXY_INBOUND_LISTEN_ADDR";

/// The service account of a Pod that names none.
const DEFAULT_ACCOUNT: &str = "default";

/// Text of which no copy is made where it can be read in place.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Variable<'a> {
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    value: Option<Text<'a>>,
}

/// Reads the name of a container: `true` if it is the proxy's.
pub(super) fn is_proxy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let name = Option::<Text<'de>>::deserialize(deserializer)?;
    Ok(name.is_some_and(|Text(name)| name == CONTAINER))
}

/// Reads the variables of a container, which are many and long in some Pods: the port where a proxy takes
/// connections.
pub(super) fn inbound_port<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<NonZeroU16>, D::Error> {
    let list = Option::<Vec<Variable<'de>>>::deserialize(deserializer)?;
    let found = list.into_iter().flatten().find_map(|variable| {
        let Text(name) = variable.name?;
        (name == LISTEN_ADDRESS).then_some(variable.value?)
    });
    let address = found.and_then(|Text(value)| value.parse::<SocketAddr>().ok());
    Ok(address.and_then(|address| NonZeroU16::new(address.port())))
}

/// Returns the proxy of a Pod, whose container has this port. Without that container the label of the mesh
/// does not count: there is no peer that could prove an identity.
pub(super) fn mesh(
    labels: &Labels,
    annotations: Option<&Annotations>,
    service_account: Option<SharedName>,
    inbound_port: Option<NonZeroU16>,
) -> Option<Box<Mesh>> {
    let control_plane = labels.get(CONTROL_PLANE)?;
    let inbound_port = inbound_port?;
    let named = |account: &SharedName| !account.0.is_empty();
    let account = service_account.filter(named);
    let skipped = annotations.and_then(|own| own.skip_inbound_ports.as_deref());
    let skipped = opaque_ports(skipped.unwrap_or_default(), &iter::empty());
    (!control_plane.is_empty()).then(|| {
        Box::new(Mesh {
            identity: MeshIdentity::ServiceAccount {
                name: account.map_or_else(|| shared(DEFAULT_ACCOUNT), |SharedName(name)| name),
                control_plane: shared(control_plane),
            },
            inbound_port,
            skipped_ports: skipped.into_iter().collect(),
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::objects::pod::Pod;

    fn proxy(address: &str) -> Value {
        json!({ "name": "linkerd-proxy", "env": [
            { "name": "_pod_name", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
            { "name": "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "value": address },
        ] })
    }

    fn pod(init_containers: &[Value], containers: &[Value]) -> Value {
        json!({
            "metadata": {
                "namespace": "shop", "name": "web-1",
                "labels": { "linkerd.io/control-plane-ns": "linkerd", "app": "web" },
                "annotations": { "config.linkerd.io/skip-inbound-ports": "25,8000-8010, x" },
            },
            "spec": {
                "serviceAccountName": "web",
                "initContainers": init_containers, "containers": containers,
            },
            "status": { "phase": "Running", "podIP": "10.1.1.3" },
        })
    }

    fn read(value: Value) -> Option<Mesh> {
        let pod: Pod = serde_json::from_value(value).unwrap();
        pod.workload.unwrap().mesh.as_deref().cloned()
    }

    fn without(mut value: Value, place: &str, field: &str) -> Value {
        let object = value.pointer_mut(place).unwrap().as_object_mut().unwrap();
        object.remove(field).unwrap();
        value
    }

    #[test]
    fn a_meshed_pod_has_an_identity_and_the_port_of_its_proxy() {
        let other = json!({ "name": "web", "env": [
            { "name": "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "value": "0.0.0.0:1" },
        ] });
        let expected = |name: &str| Mesh {
            identity: MeshIdentity::ServiceAccount {
                name: name.into(),
                control_plane: "linkerd".into(),
            },
            inbound_port: NonZeroU16::new(4143).unwrap(),
            skipped_ports: [(25, 25), (8000, 8010)]
                .map(|(first, last)| shunt_model::PortRange { first, last })
                .into(),
        };
        for value in [
            pod(&[], &[other.clone(), proxy("0.0.0.0:4143")]),
            pod(&[], &[proxy("[::]:4143"), other.clone()]),
            pod(&[proxy("127.0.0.1:4143")], &[other]),
        ] {
            let unnamed = without(value.clone(), "/spec", "serviceAccountName");
            assert_eq!(read(value), Some(expected("web")));
            assert_eq!(read(unnamed), Some(expected("default")));
        }
    }

    #[test]
    fn a_pod_without_label_or_proxy_is_not_meshed() {
        let meshed = pod(&[], &[proxy("0.0.0.0:4143")]);
        for value in [
            without(
                meshed.clone(),
                "/metadata/labels",
                "linkerd.io/control-plane-ns",
            ),
            without(meshed.clone(), "/spec/containers/0", "env"),
            without(meshed, "/spec/containers/0", "name"),
            pod(&[], &[]),
            pod(&[], &[proxy("")]),
            pod(&[], &[proxy("0.0.0.0:0")]),
            pod(&[], &[json!({ "name": null, "env": null })]),
        ] {
            assert_eq!(read(value.clone()), None, "{value}");
        }
    }
}
