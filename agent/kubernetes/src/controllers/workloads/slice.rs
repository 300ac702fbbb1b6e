//! An EndpointSlice as it is compared and written.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use shunt_model::ServiceId;

use crate::{
    controllers::workloads::service::{Family, Labels, Service},
    objects::{lenient, null},
};

/// The label that names the Service whose endpoints a slice has.
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The label that names the writer of a slice.
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// The label of the slices of headless Services.
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";

/// Name of the writer of ours.
pub(super) const MANAGER: &str = "external-workloads.shunt.io";

/// Name of the writer of linkerd's.
pub(super) const LINKERDS: &str = "linkerd-external-workloads-controller";

/// Prefix of the names of ours.
const PREFIX: &str = "shunt-external-";

/// The longest prefix of which the API makes a name.
const LONGEST_PREFIX: usize = 58;

/// An EndpointSlice, as it was read or as the server answered when it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) name: Box<str>,
    /// The uid, which no other slice has or had.
    pub(super) uid: Box<str>,
    /// The version, of which it is written and deleted.
    pub(super) version: Box<str>,
    /// Number of changes: of two readings the one with the higher number is the later one.
    pub(super) generation: i64,
    /// Its Service.
    pub(super) service: ServiceId,
    /// The uid of the Service that owns it, if one does.
    pub(super) owner: Option<Box<str>>,
    /// True if it is being deleted.
    pub(super) is_terminating: bool,
    pub(super) content: Content,
    /// Annotations and finalizers, which stay as they are.
    pub(super) rest: Value,
}

/// Content of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    /// `None`: it has names in place of addresses.
    pub(super) family: Option<Family>,
    pub(super) labels: Arc<Labels>,
    pub(super) ports: Ports,
    pub(super) endpoints: Vec<Arc<Endpoint>>,
}

/// The ports of a slice, sorted: their order means nothing.
pub(super) type Ports = Arc<[EndpointPort]>;

/// A port of a slice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EndpointPort {
    /// Empty if it has none: the API server writes `""` where no name was written.
    #[serde(default, deserialize_with = "null::or_default")]
    pub(super) name: Box<str>,
    /// One that cannot be read is none, so that the slice is written anew.
    #[serde(default, deserialize_with = "lenient::option")]
    pub(super) port: Option<u16>,
    #[serde(default)]
    pub(super) protocol: Option<Box<str>>,
    #[serde(default)]
    pub(super) app_protocol: Option<Box<str>>,
}

/// An endpoint of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Identity, by which it is the same endpoint in another slice, or at another time: its addresses in order, its
    /// name in the DNS, and its owner.
    pub(super) identity: Arc<str>,
    pub(super) addresses: Box<[Box<str>]>,
    pub(super) conditions: Conditions,
    pub(super) hostname: Option<Box<str>>,
    /// Ours have none.
    pub(super) node: Option<Box<str>>,
    pub(super) zone: Option<Box<str>>,
    /// The clients that it is meant for; `None`: all.
    pub(super) hints: Option<Box<Hints>>,
    pub(super) target: Target,
}

/// The clients that an endpoint is meant for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Hints {
    #[serde(deserialize_with = "null::or_default")]
    pub(super) for_zones: Vec<Hint>,
    /// Ours have none.
    #[serde(deserialize_with = "null::or_default")]
    pub(super) for_nodes: Vec<Hint>,
}

/// The name of a zone or a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Hint {
    pub(super) name: Box<str>,
}

impl Hints {
    /// The hint for clients of a zone.
    pub(super) fn for_zone(zone: &str) -> Self {
        Self {
            for_zones: vec![Hint { name: zone.into() }],
            for_nodes: Vec::new(),
        }
    }
}

/// Conditions of an endpoint, as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Conditions {
    pub(super) ready: Option<bool>,
    pub(super) serving: Option<bool>,
    pub(super) terminating: Option<bool>,
}

/// Owner of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Target {
    pub(super) api_version: Option<Box<str>>,
    pub(super) kind: Box<str>,
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) uid: Box<str>,
}

impl Endpoint {
    /// Without hints, and with the identity that follows from the rest.
    pub(super) fn new(
        addresses: Vec<Box<str>>,
        conditions: Conditions,
        hostname: Option<Box<str>>,
        zone: Option<Box<str>>,
        target: Target,
    ) -> Self {
        let mut sorted: Vec<&str> = addresses.iter().map(|text| &**text).collect();
        sorted.sort_unstable();
        let identity = format!(
            "{}|{}|{}|{}/{}",
            sorted.join(","),
            hostname.as_deref().unwrap_or_default(),
            target.api_version.as_deref().unwrap_or_default(),
            target.namespace,
            target.name
        );
        Self {
            identity: identity.into(),
            addresses: addresses.into(),
            conditions,
            hostname,
            node: None,
            zone,
            hints: None,
            target,
        }
    }

    fn json(&self) -> Value {
        let Self {
            identity: _,
            addresses,
            conditions:
                Conditions {
                    ready,
                    serving,
                    terminating,
                },
            hostname,
            node: _,
            zone,
            hints,
            target,
        } = self;
        let mut endpoint = json!({
            "addresses": addresses,
            "conditions": { "ready": ready, "serving": serving, "terminating": terminating },
            "targetRef": {
                "kind": target.kind, "namespace": target.namespace, "name": target.name,
                "uid": target.uid,
            },
        });
        if let Some(version) = &target.api_version {
            endpoint["targetRef"]["apiVersion"] = json!(version);
        }
        if let Some(hostname) = hostname {
            endpoint["hostname"] = json!(hostname);
        }
        if let Some(zone) = zone {
            endpoint["zone"] = json!(zone);
        }
        if let Some(hints) = hints {
            let zones = hints.for_zones.iter();
            let zones: Vec<Value> = zones.map(|zone| json!({ "name": zone.name })).collect();
            endpoint["hints"] = json!({ "forZones": zones });
        }
        endpoint
    }
}

impl Slice {
    /// The same slice, once it has this content.
    pub(super) fn with(&self, content: Content) -> Self {
        Self {
            content,
            ..self.clone()
        }
    }

    /// Has the endpoints that are as they were written be the same ones, so that they need not be compared
    /// again.
    pub(super) fn share(&mut self, written: &Content) {
        for (own, written) in self.content.endpoints.iter_mut().zip(&written.endpoints) {
            if own == written {
                *own = Arc::clone(written);
            }
        }
    }

    /// Returns whether it is owned by this Service.
    pub(super) fn is_owned_by(&self, service: &Service) -> bool {
        self.owner.as_deref() == Some(&*service.uid)
    }

    /// The slice with another content, to be written in its place: of this version, and no other one.
    pub(super) fn replaced(&self, content: &Content, service: &Service) -> Value {
        let mut slice = content.json(service);
        let metadata = &mut slice["metadata"];
        for (name, value) in self.rest.as_object().into_iter().flatten() {
            metadata[name] = value.clone();
        }
        metadata["name"] = json!(self.name);
        metadata["uid"] = json!(self.uid);
        metadata["resourceVersion"] = json!(self.version);
        slice
    }
}

impl Content {
    /// A new slice of this content, whose name the server makes.
    pub(super) fn new_slice(&self, service: &Service) -> Value {
        let mut slice = self.json(service);
        let prefix = format!("{PREFIX}{}-", service.id.name);
        let prefix = &prefix[..prefix.floor_char_boundary(LONGEST_PREFIX)];
        slice["metadata"]["generateName"] = json!(prefix);
        slice
    }

    fn json(&self, service: &Service) -> Value {
        let Self {
            family,
            labels,
            ports,
            endpoints,
        } = self;
        let ports: Vec<Value> = ports.iter().map(EndpointPort::json).collect();
        let endpoints: Vec<Value> = endpoints.iter().map(|endpoint| endpoint.json()).collect();
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "namespace": service.id.namespace,
                "labels": **labels,
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": service.id.name,
                    "uid": service.uid, "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "addressType": family.map_or("FQDN", Family::name),
            "ports": ports,
            "endpoints": endpoints,
        })
    }
}

impl EndpointPort {
    fn json(&self) -> Value {
        let Self {
            name,
            port,
            protocol,
            app_protocol,
        } = self;
        let mut written = json!({ "name": name, "port": port, "protocol": protocol });
        if let Some(app_protocol) = app_protocol {
            written["appProtocol"] = json!(app_protocol);
        }
        written
    }
}
