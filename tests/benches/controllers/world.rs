//! The cluster's objects, and their server.

use std::{
    cell::{Cell, RefCell},
    net::Ipv4Addr,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use shunt_tests::{ApiServer, Controller, Faults, Kind, Namespace};

/// Number of services.
const SERVICES: u32 = 200;

/// Number of workloads, and of the first service's among them. The others share the rest.
const WORKLOADS: u32 = 10_000;
const LARGE: u32 = 5_000;

/// Largest number of endpoints of a slice.
const SLICE: u32 = 100;

/// Limit of the time for anything that is measured.
const PATIENCE: Duration = Duration::from_mins(2);

/// Interval of the polls of the server.
const LOOK: Duration = Duration::from_micros(200);

/// A cluster whose workloads are outside.
pub(super) struct World {
    server: ApiServer,
    namespace: Namespace,
    changes: Cell<u32>,
    /// True for each workload that is ready.
    ready: RefCell<Vec<bool>>,
}

impl World {
    /// A server that has all workloads and services, and no slice.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub(super) fn new() -> Result<Self> {
        // The other suites begin at 0 and a million.
        static NUMBER: AtomicU32 = AtomicU32::new(2_000_000);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = Namespace::new(number, "controllers")?;
        let server = ApiServer::start(&namespace)?;
        server.set_faults(Faults {
            no_bookmarks: true,
            ..Faults::default()
        });
        server.put(json!({
            "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
            "metadata": { "name": "externalworkloads.workload.shunt.io" },
            "spec": {
                "group": "workload.shunt.io",
                "versions": [{ "name": "v1alpha1", "served": true }],
            },
        }));
        (0..SERVICES).for_each(|number| server.put(service(number)));
        (0..WORKLOADS).for_each(|number| server.put(workload(number)));
        server.forget_known();
        Ok(Self {
            server,
            namespace,
            changes: Cell::new(0),
            ready: RefCell::new(vec![true; WORKLOADS as usize]),
        })
    }

    /// Starts a controller, and waits until all workloads are in slices. Returns how long that took.
    ///
    /// # Errors
    ///
    /// If they never are.
    pub(super) fn publish(&self, binary: &Path) -> Result<(Controller, Duration)> {
        let flags = [
            "--kubeconfig",
            self.server.kubeconfig(),
            "--lease-namespace",
            "kube-system",
        ];
        let start = Instant::now();
        let controller = Controller::start(binary, &self.namespace, &flags)?;
        let others = (1..SERVICES).map(|number| share(number).div_ceil(SLICE));
        let slices = LARGE.div_ceil(SLICE) + others.sum::<u32>();
        let there = self.await_write(slices as usize)?;
        Ok((controller, there.saturating_duration_since(start)))
    }

    /// Has another workload than before be ready if it was not, and not if it was. Returns how long it took until
    /// a slice was written.
    ///
    /// # Errors
    ///
    /// If none is.
    pub(super) fn change(&self) -> Result<Duration> {
        let change = self.changes.replace(self.changes.get() + 1);
        // Each second one is of the large service; they are spread over all, since 2,477 is a prime.
        let place = (change / 2).wrapping_mul(2_477) % LARGE;
        let number = place + (change % 2) * (WORKLOADS - LARGE);
        let is_ready = {
            let known = &mut self.ready.borrow_mut()[number as usize];
            *known = !*known;
            *known
        };
        let before = self.server.write_times().len();
        let begin = Instant::now();
        self.server.set_status(&workload(number), status(is_ready));
        let there = self.await_write(before + 1)?;
        Ok(there.saturating_duration_since(begin))
    }

    /// Waits until so many slices were written, and returns the time of that.
    fn await_write(&self, count: usize) -> Result<Instant> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let times = self.server.write_times();
            if let Some(time) = times.get(count - 1) {
                return Ok(*time);
            }
            if Instant::now() > deadline {
                bail!("{} slices are written, and not {count}", times.len());
            }
            thread::sleep(LOOK);
        }
    }

    /// Makes sure that each workload is once in a slice of its service, as ready as it is.
    ///
    /// # Errors
    ///
    /// If it is not.
    pub(super) fn check(&self) -> Result<()> {
        self.server.forget_known();
        let ready = self.ready.borrow();
        let mut seen = vec![false; ready.len()];
        for slice in self.server.objects(Kind::EndpointSlice) {
            let service = &slice["metadata"]["labels"]["kubernetes.io/service-name"];
            for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
                let name = endpoint["targetRef"]["name"].as_str();
                let number = name.and_then(|name| name.strip_prefix("vm-")?.parse::<u32>().ok());
                let number = number.with_context(|| format!("nobody's endpoint: {endpoint}"))?;
                let index = number as usize;
                let is_right = *service == service_name(service_of(number))
                    && endpoint["conditions"]["ready"] == ready[index]
                    && !seen[index];
                ensure!(is_right, "it is not to be so: {endpoint} of {service}");
                seen[index] = true;
            }
        }
        let missing = seen.iter().filter(|is_there| !**is_there).count();
        ensure!(missing == 0, "{missing} workloads are in no slice");
        Ok(())
    }
}

/// The service of a workload.
const fn service_of(workload: u32) -> u32 {
    if workload < LARGE {
        0
    } else {
        1 + workload % (SERVICES - 1)
    }
}

/// Returns the number of a service's workloads.
fn share(service: u32) -> u32 {
    let own = (0..WORKLOADS).filter(|workload| service_of(*workload) == service);
    own.count() as u32
}

fn service_name(number: u32) -> String {
    format!("service-{number}")
}

fn service(number: u32) -> Value {
    let name = service_name(number);
    let ip = Ipv4Addr::from_bits(0x0a60_0001 + number);
    json!({
        "kind": "Service", "apiVersion": "v1",
        "metadata": {
            "namespace": "default", "name": name, "uid": format!("uid-{name}"),
            "labels": { "app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop" },
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "selector": { "app.kubernetes.io/name": name },
            "ports": [{ "name": "http", "port": 80, "protocol": "TCP", "targetPort": "http" }],
        },
    })
}

fn workload(number: u32) -> Value {
    let name = service_name(service_of(number));
    json!({
        "kind": "ExternalWorkload", "apiVersion": "workload.shunt.io/v1alpha1",
        "metadata": {
            "namespace": "default", "name": format!("vm-{number}"), "uid": format!("uid-vm-{number}"),
            "labels": {
                "app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop",
                "topology.kubernetes.io/zone": "eu-central-1a",
            },
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "workloadIPs": [{ "ip": Ipv4Addr::from_bits(0x0a80_0001 + number) }],
            "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        },
        "status": status(true),
    })
}

fn status(is_ready: bool) -> Value {
    let text = if is_ready { "True" } else { "False" };
    json!({ "conditions": [{
        "type": "Ready", "status": text, "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] })
}
