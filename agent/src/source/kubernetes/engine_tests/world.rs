//! An engine, objects for it, and words for what it tells.

use std::{net::IpAddr, sync::Arc};

use serde_json::{Value, json};
use shunt_model::{Forwarding, RendererEvent, Snapshot};
use tokio::sync::mpsc::Receiver;

use crate::{
    runtime::{
        circumstances::Circumstances,
        cluster_state::{ClusterMonitor, ClusterState},
        reports::Reports,
    },
    source::kubernetes::{
        EndpointSlice, Node, NodePortAddresses, Service,
        engine::{Change, Engine, Work},
        notices::{notice::Notice, outbox::Outbox},
        watch::step::Step,
    },
};

/// An engine on the node `here`.
pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) monitor: ClusterMonitor,
    pub(super) reports: Arc<Reports>,
    /// What came with the last event.
    pub(super) circumstances: Circumstances,
    /// What users are told.
    pub(super) notices: Receiver<Notice>,
}

pub(super) fn service(name: &str, created: &str, spec: Value) -> Step<Service> {
    let mut service = json!({
        "metadata": { "namespace": "default", "name": name, "uid": name, "creationTimestamp": created },
        "spec": { "clusterIP": "10.96.0.1", "ports": [{ "name": "http", "port": 80, "nodePort": 30080 }] },
    });
    let Value::Object(spec) = spec else {
        panic!("a spec has fields: {spec}");
    };
    for (key, value) in spec {
        service["spec"][&key] = value;
    }
    Step::Applied(serde_json::from_value(service).unwrap())
}

pub(super) fn slice_of(
    service: &str,
    name: &str,
    addresses: &[&str],
    annotations: Value,
) -> EndpointSlice {
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|ip| json!({ "addresses": [ip] }))
        .collect();
    let mut slice = json!({
        "metadata": {
            "namespace": "default", "name": name,
            "labels": { "kubernetes.io/service-name": service },
        },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": 8080 }],
        "endpoints": endpoints,
    });
    slice["metadata"]["annotations"] = annotations;
    serde_json::from_value(slice).unwrap()
}

pub(super) fn slice(service: &str, name: &str, addresses: &[&str]) -> Change {
    Change::EndpointSlice(Step::Applied(slice_of(service, name, addresses, json!({}))))
}

pub(super) fn node(name: &str, zone: &str, address: &str) -> Step<Node> {
    let node = json!({
        "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": zone } },
        "status": { "addresses": [{ "type": "InternalIP", "address": address }] },
    });
    Step::Applied(serde_json::from_value(node).unwrap())
}

/// An event in a word, with the endpoints of services.
pub(super) fn word(event: &RendererEvent) -> String {
    let subject = event.subject();
    match event {
        RendererEvent::UpdateService(service) => {
            let endpoints = service.ports.iter().flat_map(|port| &port.endpoints);
            let endpoints: Vec<_> = endpoints.map(|endpoint| endpoint.ip.to_string()).collect();
            format!("{subject} {}", endpoints.join(" "))
                .trim_end()
                .to_owned()
        }
        RendererEvent::Resync(Snapshot {
            services, node_ips, ..
        }) => {
            let services: Vec<_> = services
                .iter()
                .map(|service| service.id.to_string())
                .collect();
            format!("{subject} {} {node_ips:?}", services.join(" "))
        }
        RendererEvent::UpdateNodes(nodes) => format!("{subject} {:?}", nodes.0),
        RendererEvent::UpdateNodePortServices(update) => format!("{subject} {:?}", update.node_ips),
        _ => subject,
    }
}

impl World {
    pub(super) fn new() -> Self {
        let monitor = ClusterMonitor::new("a server".into(), "here".into());
        let reports = Arc::<Reports>::default();
        let (outbox, notices) = Outbox::new(Arc::clone(&reports));
        let mut engine = Engine::new(
            "here",
            NodePortAddresses::Primary,
            Forwarding::Snat,
            monitor.clone(),
            Arc::clone(&reports),
            outbox,
        );
        let host: [IpAddr; 2] = [[192, 0, 2, 1].into(), [192, 0, 2, 9].into()];
        engine.set_host_addresses(host.into());
        Self {
            engine,
            monitor,
            reports,
            circumstances: Circumstances::default(),
            notices,
        }
    }

    /// A world whose first event took effect.
    pub(super) fn synced() -> Self {
        let mut world = Self::new();
        world.list_nothing();
        world
            .engine
            .take(Change::Node(node("here", "a", "192.0.2.1")));
        assert_eq!(world.events().len(), 1);
        world
    }

    pub(super) fn list_nothing(&mut self) {
        self.engine.take(Change::Service(Step::Listed(Vec::new())));
        self.engine
            .take(Change::EndpointSlice(Step::Listed(Vec::new())));
        self.engine
            .take(Change::ServiceCidr(Step::Absent("404".into())));
        self.engine.take(Change::Node(Step::Listed(Vec::new())));
    }

    /// What the renderer is told now; each event takes effect.
    pub(super) fn events(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        while let Some(work) = self.engine.next() {
            let Work {
                event,
                circumstances,
                about,
            } = work;
            words.push(word(&event));
            self.circumstances = circumstances;
            self.engine.done(about, Ok(Vec::new()));
        }
        words
    }

    pub(super) fn state(&self) -> ClusterState {
        self.monitor.snapshot()
    }
}
