//! A Service with slices, and its translation.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use shunt_model::{Endpoint, EndpointState, Service as ModelService, ServicePort};

use crate::{
    objects::{endpoint_slice::EndpointSlice, node::PrimaryAddresses, service::Service},
    translate::{
        service::{Translation, translate},
        view::{HostPorts, Limits, NodeView},
    },
};

/// A Service, its slices, and the node that looks at them.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) service: Value,
    pub(super) slices: Vec<Value>,
    pub(super) node: NodeView,
}

impl World {
    /// A dual-stack Service with the port `http`, and no slice.
    pub(super) fn new() -> Self {
        Self {
            service: json!({
                "metadata": {
                    "namespace": "default", "name": "web", "uid": "u-1",
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                },
                "spec": {
                    "type": "ClusterIP",
                    "clusterIP": "10.96.0.1",
                    "clusterIPs": ["10.96.0.1", "fd00:96::1"],
                    "ipFamilies": ["IPv4", "IPv6"],
                    "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }],
                },
            }),
            slices: Vec::new(),
            node: NodeView {
                name: "here".into(),
                zone: Some("a".into()),
                addresses: PrimaryAddresses::default(),
                service_cidrs: BTreeSet::new(),
                host_ports: HostPorts::new(),
                limits: Limits::default(),
            },
        }
    }

    /// The same with fields of the Service's `spec`.
    pub(super) fn spec(mut self, fields: Value) -> Self {
        let Value::Object(fields) = fields else {
            panic!("a spec has fields: {fields}");
        };
        for (name, value) in fields {
            self.service["spec"][&name] = value;
        }
        self
    }

    /// The same with these entries of `status.loadBalancer.ingress`.
    pub(super) fn ingress(mut self, entries: Value) -> Self {
        self.service["status"]["loadBalancer"]["ingress"] = entries;
        self
    }

    /// The same with a slice of these endpoints, of IPv4 and for the port `http`.
    pub(super) fn slice(self, endpoints: Value) -> Self {
        let ports = json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]);
        self.slice_of("IPv4", ports, endpoints)
    }

    /// The same with a slice.
    pub(super) fn slice_of(mut self, family: &str, ports: Value, endpoints: Value) -> Self {
        let name = format!("web-{}", self.slices.len());
        let mut slice = json!({
            "metadata": {
                "namespace": "default", "name": name,
                "labels": { "kubernetes.io/service-name": "web" },
            },
            "addressType": family,
        });
        slice["ports"] = ports;
        slice["endpoints"] = endpoints;
        self.slices.push(slice);
        self
    }

    /// The same as another node sees it.
    pub(super) fn node(mut self, name: &str, zone: Option<&str>) -> Self {
        self.node.name = name.into();
        self.node.zone = zone.map(Into::into);
        self
    }

    /// The same where the tables hold no more.
    pub(super) fn limits(mut self, limits: Limits) -> Self {
        self.node.limits = limits;
        self
    }

    /// Translates it.
    pub(super) fn translate(&self) -> Translation {
        let service: Service = serde_json::from_value(self.service.clone()).unwrap();
        let slices: Vec<EndpointSlice> = self
            .slices
            .iter()
            .map(|slice| serde_json::from_value(slice.clone()).unwrap())
            .collect();
        translate(&service, slices.iter(), &self.node)
    }

    /// The service that it becomes.
    #[track_caller]
    pub(super) fn model(&self) -> ModelService {
        let Translation {
            service, problems, ..
        } = self.translate();
        assert_eq!(problems, []);
        service.unwrap()
    }

    /// The service's only port.
    #[track_caller]
    pub(super) fn port(&self) -> ServicePort {
        let [port] = <[ServicePort; 1]>::try_from(self.model().ports).unwrap();
        port
    }

    /// The endpoints of its only port as text: `10.0.0.1:8080 CL`, with a letter for each scope,
    /// and what it is if it is not ready: `T` terminating, `S` serving at that, `N` not ready.
    #[track_caller]
    pub(super) fn endpoints(&self) -> Vec<String> {
        self.port().endpoints.iter().map(shown).collect()
    }
}

/// An endpoint as text.
pub(super) fn shown(endpoint: &Endpoint) -> String {
    let Endpoint {
        ip,
        port,
        weight,
        local,
        state,
        serving,
        scopes,
        hints: _,
        node: _,
        zone: _,
    } = endpoint;
    assert_eq!(*weight, 1, "all endpoints are alike");
    assert_eq!(*local, scopes.local, "the Local set is what runs here");
    let state = match (state, serving) {
        (EndpointState::Ready, _) => "",
        (EndpointState::Terminating, true) => "TS",
        (EndpointState::Terminating, false) => "T",
        (EndpointState::NotReady, _) => "N",
    };
    let cluster = if scopes.cluster { "C" } else { "" };
    let local = if scopes.local { "L" } else { "" };
    format!("{ip}:{port} {cluster}{local}{state}")
        .trim_end()
        .to_owned()
}
