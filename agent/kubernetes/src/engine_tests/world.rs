//! An engine, objects for it, and words for its events.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use serde_json::{Value, json};
use shunt_model::{Forwarding, RendererEvent, Snapshot, WorkloadUpdate};
use shunt_runtime::{
    Circumstances, ClusterMonitor, ClusterState, Consequences, Fate, Refusal, Reports,
};
use tokio::sync::mpsc::Receiver;

use crate::{
    ApiServer, EndpointSlice, KubernetesOptions, Limits, LookupPods, Node, NodePortAddresses,
    Service,
    engine::{Change, Engine, Work},
    notices::{notice::Notice, outbox::Outbox},
    objects::custom::{CustomKind, Definition},
    routes::change::RouteChange,
    watch::step::Step,
};

/// The fate of an event that finds no room.
pub(super) fn refused(reason: &str) -> Fate {
    Err(Refusal {
        reason: reason.to_owned(),
        wants_room: true,
    })
}

/// An engine on the node `here`.
pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) monitor: ClusterMonitor,
    pub(super) reports: Arc<Reports>,
    /// Circumstances of the last event.
    pub(super) circumstances: Circumstances,
    /// Notices for users.
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
    let subject = event.subject().to_string();
    match event {
        RendererEvent::UpdateService(service) => {
            let endpoints = service.ports.iter().flat_map(|port| &port.endpoints);
            let endpoints: Vec<_> = endpoints.map(|endpoint| endpoint.ip.to_string()).collect();
            format!("{subject} {}", endpoints.join(" "))
                .trim_end()
                .to_owned()
        }
        RendererEvent::Resync(Snapshot {
            services,
            node_ips,
            workloads,
            ..
        }) => {
            let services: Vec<_> = services
                .iter()
                .map(|service| service.id.to_string())
                .collect();
            let pods = workloads.iter().map(|pod| format!(" {}", pod.id.name));
            let pods: String = pods.collect();
            format!("{subject} {} {node_ips:?}{pods}", services.join(" "))
        }
        RendererEvent::UpdateWorkloads(WorkloadUpdate { workloads, gone }) => {
            let new = workloads.iter().map(|pod| format!(" +{}", pod.id.name));
            let gone = gone.iter().map(|id| format!(" -{}", id.name));
            format!("{subject}{}", new.chain(gone).collect::<String>())
        }
        RendererEvent::UpdateNodes(nodes) => format!("{subject} {:?}", nodes.0),
        RendererEvent::UpdateNodePortServices(update) => format!("{subject} {:?}", update.node_ips),
        _ => subject,
    }
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A world with other settings.
    pub(super) fn with(change: impl FnOnce(&mut KubernetesOptions)) -> Self {
        let mut options = KubernetesOptions {
            api_server: ApiServer::default(),
            node_name: "here".to_owned(),
            proxy_name: None,
            node_port_addresses: NodePortAddresses::Primary,
            remote_node_ports: false,
            node_ip: None,
            external_ips: true,
            protects_host_ports: true,
            forwarding_by_annotation: true,
            forwarding: Forwarding::Snat,
            cluster_domain: "cluster.local".to_owned(),
            lookup_pods: LookupPods::Off,
            limits: Limits::default(),
        };
        change(&mut options);
        let monitor = ClusterMonitor::new("a server".into(), "here".into());
        let reports = Arc::<Reports>::default();
        let (outbox, notices) = Outbox::new(Arc::clone(&reports));
        let mut engine = Engine::new(&options, monitor.clone(), Arc::clone(&reports), outbox);
        engine.set_host_addresses(Self::host());
        Self {
            engine,
            monitor,
            reports,
            circumstances: Circumstances::default(),
            notices,
        }
    }

    /// The addresses of this host's interfaces.
    pub(super) fn host() -> BTreeSet<IpAddr> {
        [[192, 0, 2, 1].into(), [192, 0, 2, 9].into()].into()
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

    /// The cluster defines these kinds.
    pub(super) fn define(&mut self, kinds: &[CustomKind]) {
        let definitions = kinds.iter().map(|kind| Definition { kind: Some(*kind) });
        let step = Step::listed(definitions.collect());
        self.engine
            .take(Change::Route(RouteChange::Definition(step)));
    }

    pub(super) fn list_nothing(&mut self) {
        self.engine.take(Change::Service(Step::listed(Vec::new())));
        self.engine
            .take(Change::EndpointSlice(Step::listed(Vec::new())));
        self.engine
            .take(Change::ServiceCidr(Step::Absent("404".into())));
        self.define(&[]);
        self.engine.take(Change::Node(Step::listed(Vec::new())));
    }

    /// Returns the events for the renderer; each takes effect.
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
            self.engine.done(about, Ok(Consequences::default()));
        }
        words
    }

    pub(super) fn state(&self) -> ClusterState {
        self.monitor.snapshot()
    }
}
