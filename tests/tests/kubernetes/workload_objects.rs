//! ExternalWorkloads, and what a cluster makes of them.

use serde_json::{Value, json};
use shunt_tests::{Controller, Kind, wait_until};

use crate::{
    controller::Cluster,
    objects::{SERVED, and, service, with},
    route_objects::definition,
    world::SOON,
};

pub(crate) const WORKLOADS: (&str, &str) = ("externalworkloads", "workload.shunt.io");
pub(crate) const LINKERDS: (&str, &str) = ("externalworkloads", "workload.linkerd.io");

/// Manager of our slices.
const MANAGER: &str = "external-workloads.shunt.io";

/// A ready workload of our group with the label `app: web` and the port `web`.
pub(crate) fn workload(name: &str, ip: &str) -> Value {
    json!({
        "kind": "ExternalWorkload", "apiVersion": "workload.shunt.io/v1alpha1",
        "metadata": { "namespace": "default", "name": name, "labels": { "app": "web" } },
        "spec": {
            "workloadIPs": [{ "ip": ip }],
            "ports": [{ "name": "web", "port": SERVED, "protocol": "TCP" }],
        },
        "status": readiness(true),
    })
}

pub(crate) fn linkerds(name: &str, ip: &str) -> Value {
    let workload = with(
        workload(name, ip),
        "/apiVersion",
        "workload.linkerd.io/v1beta1",
    );
    let identity = json!({ "identity": "spiffe://a", "serverName": "a" });
    and(workload, "/spec", "meshTLS", identity)
}

/// One of linkerd's that no Service selects, and whose probe has no server.
fn probed_linkerds() -> Value {
    let probe = r#"{"tcpSocket":{"port":9},"failureThreshold":1}"#;
    let annotations = json!({ "workload.shunt.io/readiness-probe": probe });
    let object = with(
        linkerds("probed", "192.0.2.4"),
        "/metadata/labels",
        json!({}),
    );
    and(object, "/metadata", "annotations", annotations)
}

pub(crate) fn readiness(is_ready: bool) -> Value {
    let status = if is_ready { "True" } else { "False" };
    json!({ "conditions": [{ "type": "Ready", "status": status }] })
}

/// The Service `web` with a selector.
pub(crate) fn selecting(name: &str, ip: &str) -> Value {
    and(
        service(name, ip),
        "/spec",
        "selector",
        json!({ "app": "web" }),
    )
}

/// Our slices among these.
pub(crate) fn ours<'a>(slices: impl Iterator<Item = &'a Value>) -> impl Iterator<Item = &'a Value> {
    slices.filter(|slice| {
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] == MANAGER
    })
}

/// The workloads of a slice, and whether they are ready.
pub(crate) fn endpoints(slice: &Value) -> impl Iterator<Item = (String, bool)> {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints.map(|endpoint| {
        let name = endpoint["targetRef"]["name"].as_str().unwrap().to_owned();
        (name, endpoint["conditions"]["ready"] == true)
    })
}

impl Cluster {
    /// The endpoints of our slices of a Service, once for each slice that they are in.
    pub(crate) fn published(&self, service: &str) -> Vec<(String, bool)> {
        let slices = self.slices();
        let mut found: Vec<_> = ours(slices.iter())
            .filter(|one| one["metadata"]["labels"]["kubernetes.io/service-name"] == service)
            .flat_map(endpoints)
            .collect();
        found.sort();
        found
    }

    /// The slices that there are.
    pub(crate) fn slices(&self) -> Vec<Value> {
        self.server.objects(Kind::EndpointSlice)
    }

    #[track_caller]
    pub(crate) fn await_published(
        &self,
        service: &str,
        expected: &[(&str, bool)],
        one: &Controller,
    ) {
        let expected: Vec<(String, bool)> = expected
            .iter()
            .map(|(name, ready)| ((*name).to_owned(), *ready))
            .collect();
        let found = wait_until("the slices say so", SOON, || {
            (self.published(service) == expected).then_some(())
        });
        found.unwrap_or_else(|error| {
            let found = self.published(service);
            panic!("{error}: {found:?}, not {expected:?}\n{}", one.log())
        });
    }

    /// Workloads of both groups, of which some are left out.
    pub(crate) fn prepare_workloads(&self) {
        self.server.put(definition(WORKLOADS, &["v1alpha1"]));
        self.server.put(definition(LINKERDS, &["v1beta1"]));
        self.server.put(selecting("db", "10.96.0.20"));
        self.server.put(workload("vm", "192.0.2.1"));
        let other = with(workload("left", "192.0.2.2"), "/spec/ports/0/name", "other");
        self.server.put(other);
        let other = with(linkerds("left", "192.0.2.3"), "/spec/ports/0/name", "other");
        self.server.put(other);
        self.server.put(probed_linkerds());
    }

    /// Waits until they have had all that is done to workloads.
    #[track_caller]
    pub(crate) fn await_workloads(&self, one: &Controller) {
        self.await_published("db", &[("vm", true)], one);
        self.server
            .set_status(&workload("vm", ""), readiness(false));
        self.await_published("db", &[("vm", false)], one);
        self.server.delete(&workload("vm", ""));
        self.await_published("db", &[], one);
        // One that is made anew: its Event is counted up.
        let other = with(linkerds("left", "192.0.2.3"), "/spec/ports/0/name", "other");
        for count in [json!(null), json!(2)] {
            wait_until("its user is told", SOON, || {
                let events = self.server.events().into_iter();
                let mut told = events.filter(|event| event["regarding"]["name"] == "left");
                told.find(|event| event["series"]["count"] == count)
            })
            .unwrap_or_else(|error| panic!("{error}: {:#?}\n{}", self.server.events(), one.log()));
            self.server.put(linkerds("left", "192.0.2.3"));
            self.await_published("db", &[("left", true)], one);
            self.server.put(other.clone());
            self.await_published("db", &[], one);
        }
        wait_until("a condition is written", SOON, || {
            let left = self.server.get(&workload("left", ""))?;
            (left["status"]["conditions"].as_array()?.len() == 2).then_some(())
        })
        .unwrap();
        wait_until("linkerd's is looked at", SOON, || {
            let probed = self.server.get(&probed_linkerds())?;
            (probed["status"]["conditions"][0]["reason"] == "ProbeFailed").then_some(())
        })
        .unwrap();
    }

    /// Returns the number of writes of slices.
    pub(crate) fn slice_writes(&self) -> usize {
        let asked = self.server.asked().into_iter();
        asked
            .filter(|(method, uri)| method != "GET" && uri.contains("endpointslices"))
            .count()
    }
}
