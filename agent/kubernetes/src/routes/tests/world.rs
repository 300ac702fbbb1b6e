//! A cluster's routes and services, and words for the results.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};
use shunt_model::{Service as ModelService, ServiceId, Split, SplitFrontends, SplitTarget};

use crate::{
    objects::{
        node::PrimaryAddresses, reference_grant::ReferenceGrant, route::Route, service::Service,
        service_profile::ServiceProfile, traffic_split::TrafficSplit,
    },
    routes::{
        book::{Book, RouteKind},
        change::RouteChange,
    },
    translate::{
        problem::Problem,
        service::{Translation, translate},
        view::{HostPorts, Limits, NodeView},
    },
    watch::step::Step,
};

/// Objects of a cluster.
#[derive(Debug)]
pub(super) struct World {
    pub(super) book: Book,
    services: BTreeMap<ServiceId, Service>,
}

/// A cluster of the domain `cluster.local`.
impl Default for World {
    fn default() -> Self {
        Self {
            book: Book::of_cluster("cluster.local"),
            services: BTreeMap::new(),
        }
    }
}

/// `NAMESPACE/NAME`, or a name in the namespace `default`.
fn id(text: &str) -> ServiceId {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    ServiceId::new(namespace, name)
}

fn metadata(name: &str, day: u8) -> Value {
    let ServiceId { namespace, name } = id(name);
    json!({
        "namespace": namespace, "name": name,
        "creationTimestamp": format!("2026-01-{day:02}T00:00:00Z"),
    })
}

/// A reference to the Service as a parent, with further fields.
pub(super) fn parent(name: &str, fields: Value) -> Value {
    let mut parent = json!({ "group": "", "kind": "Service", "name": name });
    let Value::Object(fields) = fields else {
        panic!("a reference has fields: {fields}");
    };
    for (field, value) in fields {
        parent[&field] = value;
    }
    parent
}

/// A reference to port 80 of a Service as a backend.
pub(super) fn backend(name: &str, weight: u32) -> Value {
    json!({ "name": name, "port": 80, "weight": weight })
}

impl World {
    /// With a Service of the ports `http` (80/TCP), `alt` (8080/TCP) and `dns` (80/UDP).
    pub(super) fn service(self, name: &str) -> Self {
        self.service_with(name, &json!({}))
    }

    /// With such a Service, and other fields of its `spec`.
    pub(super) fn service_with(mut self, name: &str, fields: &Value) -> Self {
        let mut spec = json!({
            "clusterIP": "10.96.0.1",
            "ports": [
                { "name": "http", "port": 80 },
                { "name": "alt", "port": 8080 },
                { "name": "dns", "port": 80, "protocol": "UDP" },
            ],
        });
        for (field, value) in fields.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let service = json!({ "metadata": metadata(name, 1), "spec": spec });
        let service = serde_json::from_value(service).unwrap();
        self.services.insert(id(name), service);
        self
    }

    /// With a TCPRoute that was made on this day, for these parents, with one rule.
    pub(super) fn tcp(self, name: &str, day: u8, parents: Value, backends: Value) -> Self {
        let mut rules = json!([{}]);
        rules[0]["backendRefs"] = backends;
        self.route(RouteKind::Tcp, name, day, parents, rules)
    }

    /// With a route.
    pub(super) fn route(
        mut self,
        kind: RouteKind,
        name: &str,
        day: u8,
        parents: Value,
        rules: Value,
    ) -> Self {
        let mut route = json!({ "metadata": metadata(name, day) });
        route["spec"]["parentRefs"] = parents;
        route["spec"]["rules"] = rules;
        let route: Route = serde_json::from_value(route).unwrap();
        let step = Step::Applied(route);
        self.book.take(match kind {
            RouteKind::Tcp => RouteChange::TcpRoute(step),
            RouteKind::Udp => RouteChange::UdpRoute(step),
        });
        self
    }

    /// With a ReferenceGrant of a namespace, from TCPRoutes of `default` to these objects.
    pub(super) fn grant(self, namespace: &str, to: Value) -> Self {
        let from = json!([{
            "group": "gateway.networking.k8s.io", "kind": "TCPRoute", "namespace": "default",
        }]);
        self.grant_from(namespace, from, to)
    }

    /// With a ReferenceGrant.
    pub(super) fn grant_from(mut self, namespace: &str, from: Value, to: Value) -> Self {
        let mut grant = json!({ "metadata": { "namespace": namespace, "name": "grant" } });
        grant["spec"]["from"] = from;
        grant["spec"]["to"] = to;
        let grant: ReferenceGrant = serde_json::from_value(grant).unwrap();
        self.book
            .take(RouteChange::ReferenceGrant(Step::Applied(grant)));
        self
    }

    /// With a TrafficSplit that was made on this day.
    pub(super) fn traffic_split(
        mut self,
        name: &str,
        day: u8,
        root: &str,
        backends: &[(&str, u32)],
    ) -> Self {
        let backends = backends.iter();
        let backends: Vec<Value> = backends
            .map(|(service, weight)| json!({ "service": service, "weight": weight }))
            .collect();
        let split: TrafficSplit = serde_json::from_value(json!({
            "metadata": metadata(name, day), "spec": { "service": root, "backends": backends },
        }))
        .unwrap();
        self.book
            .take(RouteChange::TrafficSplit(Step::Applied(split)));
        self
    }

    /// With a ServiceProfile of this name, which sends the Service's traffic to these authorities.
    pub(super) fn profile(mut self, name: &str, places: &[(&str, &str)]) -> Self {
        let places = places.iter();
        let places: Vec<Value> = places
            .map(|(authority, weight)| json!({ "authority": authority, "weight": weight }))
            .collect();
        let profile: ServiceProfile = serde_json::from_value(json!({
            "metadata": metadata(name, 1), "spec": { "dstOverrides": places },
        }))
        .unwrap();
        self.book
            .take(RouteChange::ServiceProfile(Step::Applied(profile)));
        self
    }

    /// The splits of the ports of `web`, by the ports' names, and what is left out.
    pub(super) fn splits(&self) -> (BTreeMap<String, String>, Vec<Problem>) {
        let service = &self.services[&id("web")];
        let node = NodeView {
            name: "here".into(),
            zone: None,
            addresses: PrimaryAddresses::default(),
            service_cidrs: BTreeSet::new(),
            host_ports: HostPorts::new(),
            limits: Limits::default(),
        };
        let Translation {
            service: model,
            mut problems,
            ..
        } = translate(service, [], &node);
        let mut model: ModelService = model.unwrap();
        self.book.split(service, &mut model, &mut problems);
        let splits = model.ports.iter().filter_map(|port| {
            let split = port.split.as_ref()?;
            Some((port.name.to_string(), shown(split)))
        });
        (splits.collect(), problems)
    }

    /// The split of one port of `web`; empty if there is none.
    #[track_caller]
    pub(super) fn split(&self, port: &str) -> String {
        let (mut splits, problems) = self.splits();
        assert_eq!(problems, []);
        splits.remove(port).unwrap_or_default()
    }

    /// The conditions of the route for each parent: the reasons, and whatever is wrong.
    pub(super) fn conditions(&self, kind: RouteKind, name: &str) -> Vec<String> {
        let wanted = id(name);
        let route = self.book.routes(kind).find(|route| *route.id == wanted);
        let route: Arc<Route> = Arc::clone(route.unwrap());
        let services = |id: &ServiceId| self.services.get(id);
        let found = self.book.conditions(kind, &route, services).into_iter();
        found
            .map(|one| {
                let mut text = String::new();
                for verdict in [one.accepted, one.resolved] {
                    let is_good = verdict.reason.is_good();
                    text.push_str(verdict.reason.name());
                    if !is_good {
                        text.push_str(&format!(" ({})", verdict.message));
                    }
                    text.push(' ');
                }
                text.trim_end().to_owned()
            })
            .collect()
    }
}

/// A split as text: `strict web:80*9 !*1`.
fn shown(split: &Split) -> String {
    let Split {
        mode,
        frontends,
        backends,
    } = split;
    assert_eq!(*frontends, SplitFrontends::ClusterIp, "no others are split");
    let mut text = mode.name().to_owned();
    for backend in backends {
        let target = match &backend.target {
            SplitTarget::Service { id, port } => {
                let id = id.to_string();
                let name = id.strip_prefix("default/").unwrap_or(&id);
                format!("{name}:{port}")
            }
            SplitTarget::Invalid { .. } => "!".to_owned(),
            SplitTarget::Address { ip, port } => panic!("{ip}:{port}: nobody asks for that"),
        };
        text.push_str(&format!(" {target}*{}", backend.weight));
    }
    text
}
