//! Objects of the tests.

use std::sync::Arc;

use serde_json::{Value, json};
use shunt_model::ServiceId;

use crate::{
    controllers::workloads::{
        candidate::Candidate,
        desired::Desired,
        raw_slice::RawSlice,
        service::{RawService, Service},
        slice::Slice,
        write::Write,
    },
    objects::external_workload::{ExternalWorkload, RawLinkerd, RawOwn},
};

/// The Service `a/web`, which selects `app: web`, with another value in the place that the path names.
pub(in super::super) fn web(changes: &[(&str, Value)]) -> Service {
    let mut object = json!({
        "metadata": {
            "namespace": "a", "name": "web", "uid": "uid-web", "labels": { "team": "blue" },
        },
        "spec": {
            "clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"], "selector": { "app": "web" },
            "ports": [{ "name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080 }],
        },
    });
    set(&mut object, changes);
    service(object)
}

pub(in super::super) fn service(object: Value) -> Service {
    serde_json::from_value::<RawService>(object).unwrap().into()
}

/// A ready workload of our group with the labels of `web`.
pub(in super::super) fn workload(
    name: &str,
    ip: &str,
    changes: &[(&str, Value)],
) -> ExternalWorkload {
    let raw: RawOwn = serde_json::from_value(object(name, ip, changes)).unwrap();
    raw.into()
}

/// One of linkerd's.
pub(in super::super) fn linkerds(
    name: &str,
    ip: &str,
    changes: &[(&str, Value)],
) -> ExternalWorkload {
    let raw: RawLinkerd = serde_json::from_value(object(name, ip, changes)).unwrap();
    raw.into()
}

fn object(name: &str, ip: &str, changes: &[(&str, Value)]) -> Value {
    let mut object = json!({
        "metadata": {
            "namespace": "a", "name": name, "uid": format!("uid-{name}"),
            "labels": { "app": "web" }, "resourceVersion": "1",
        },
        "spec": {
            "workloadIPs": [{ "ip": ip }],
            "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    set(&mut object, changes);
    object
}

fn set(object: &mut Value, changes: &[(&str, Value)]) {
    for (path, value) in changes {
        let (parent, name) = path.rsplit_once('/').unwrap();
        let parent = object
            .pointer_mut(parent)
            .unwrap_or_else(|| panic!("no {parent}"));
        parent[name] = value.clone();
    }
}

/// A slice as the server returns it after this was written, with the defaults that it writes
/// (Kubernetes, pkg/apis/discovery/v1/defaults.go).
pub(in super::super) fn confirmed(mut object: Value, name: &str, generation: i64) -> Arc<Slice> {
    for port in object["ports"].as_array_mut().into_iter().flatten() {
        for (field, default) in [("name", ""), ("protocol", "TCP")] {
            if port[field].is_null() {
                port[field] = json!(default);
            }
        }
    }
    let metadata = &mut object["metadata"];
    metadata["name"] = json!(name);
    metadata["uid"] = json!(format!("uid-{name}"));
    metadata["generation"] = json!(generation);
    metadata["resourceVersion"] = json!(format!("{name}-{generation}"));
    let raw: RawSlice = serde_json::from_value(object).unwrap();
    Arc::new(raw.into())
}

/// A server that handles writes, one after the other.
#[derive(Debug, Default)]
pub(in super::super) struct Server {
    pub(in super::super) slices: Vec<Arc<Slice>>,
    made: usize,
}

impl Server {
    pub(in super::super) fn apply(&mut self, service: &Service, write: &Write) {
        match write {
            Write::Create(content) => {
                self.made += 1;
                let name = format!("s{:04}", self.made);
                self.slices
                    .push(confirmed(content.new_slice(service), &name, 1));
            }
            Write::Update(old, content) => {
                let place = self
                    .slices
                    .iter_mut()
                    .find(|slice| slice.name == old.name)
                    .unwrap();
                let next = place.generation + 1;
                *place = confirmed(old.replaced(content, service), &old.name, next);
            }
            Write::Delete(old) => {
                let before = self.slices.len();
                self.slices.retain(|slice| slice.name != old.name);
                assert_eq!(self.slices.len(), before - 1, "it was there");
            }
        }
    }
}

pub(in super::super) fn desired(service: &Service, workloads: &[ExternalWorkload]) -> Desired {
    let selected = workloads.iter().filter(|one| service.selects(&one.labels));
    let selected: Vec<Candidate> = selected.cloned().map(Candidate::new).collect();
    Desired::of(service, selected.iter())
}

pub(in super::super) fn id(name: &str) -> ServiceId {
    ServiceId::new("a", name)
}
