//! A controller's answers over HTTP: health, and metrics.

use std::{fmt, net::SocketAddr, sync::Arc};

use hyper::{Request, StatusCode, body::Incoming, header::ACCEPT};
use prometheus_client::{encoding::text, registry::Registry};
use shunt_http::{Answer, Answers, Door, Peer, Try, answer, not_found, text as words, verdict};
use shunt_kubernetes::{Controller, ControllerMeters, WorkloadMeters};
use shunt_runtime::{Listener, Reports};
use tracing::debug;

use crate::metrics::{
    meters::register_requests,
    process::Process,
    process_use::ProcessUse,
    text::{OPEN_METRICS, PLAIN, accepts_open_metrics, plain},
};

/// Begins to answer for the controller, where that is asked for. To be called in a runtime, and for as
/// long as it runs. An address that cannot be had is tried again.
pub fn serve_controller(
    controller: &Controller,
    health: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
) {
    let (meters, reports) = controller.meters();
    if let Some(address) = health {
        let answers = Health(Arc::clone(meters));
        let door = Door::new(
            Listener::Health,
            vec![Try::at(address)],
            answers,
            Arc::clone(reports),
        );
        tokio::spawn(door.keep());
    }
    if let Some(address) = metrics {
        let answers = Metrics::new(meters, Arc::clone(reports));
        let door = Door::new(
            Listener::Metrics,
            vec![Try::at(address)],
            answers,
            Arc::clone(reports),
        );
        tokio::spawn(door.keep());
    }
}

/// Answers whether it is alive, and whether it knows all that it has to; one that waits for the other one to end
/// is as ready as the one that writes.
#[derive(Debug)]
struct Health(Arc<ControllerMeters>);

impl Answers for Health {
    async fn answer(&self, request: Request<Incoming>, _peer: Peer) -> Answer {
        let Self(meters) = self;
        let is_well = match request.uri().path() {
            "/healthz" | "/livez" => meters.is_alive(),
            "/readyz" => meters.is_ready() && meters.is_alive(),
            _ => return not_found(),
        };
        words(verdict(is_well), if is_well { "ok" } else { "not ok" })
    }
}

#[derive(Debug)]
struct Metrics {
    meters: Registry,
    reports: Arc<Reports>,
}

impl Metrics {
    fn new(meters: &ControllerMeters, reports: Arc<Reports>) -> Self {
        let mut registry = Registry::default();
        registry.register(
            "shunt_controller_leader",
            "Whether this controller is the one that writes",
            meters.leads.clone(),
        );
        registry.register(
            "shunt_controller_routes",
            "Routes of the cluster, by kind",
            meters.routes.clone(),
        );
        registry.register(
            "shunt_controller_statuses",
            "Looks at the status of a route, by what became of it",
            meters.statuses.clone(),
        );
        register_workloads(&meters.workloads, &mut registry);
        register_requests(&reports.meters().rest_client, &mut registry);
        Self {
            meters: registry,
            reports,
        }
    }

    fn scrape(&self) -> Result<String, fmt::Error> {
        let mut scraped = Registry::default();
        match ProcessUse::read() {
            Ok(taken) => scraped.register_collector(Box::new(Process {
                taken,
                started: self.reports.meters().started,
            })),
            Err(error) => debug!(%error, "what the process takes is left out"),
        }
        let mut metrics = String::new();
        text::encode_registry(&mut metrics, &self.meters)?;
        text::encode_registry(&mut metrics, &scraped)?;
        text::encode_eof(&mut metrics)?;
        Ok(metrics)
    }
}

fn register_workloads(meters: &WorkloadMeters, registry: &mut Registry) {
    let registry = registry.sub_registry_with_prefix("shunt_controller");
    let WorkloadMeters {
        workloads,
        unreadable,
        left_out,
        refused,
        slices,
        endpoints,
        writes,
        syncs,
        waiting,
        given_up,
        drops,
        probed,
        probes,
        late_probes,
    } = meters;
    registry.register(
        "workloads",
        "ExternalWorkloads, by whose they are",
        workloads.clone(),
    );
    for (name, help, gauge) in [
        (
            "workloads_unreadable",
            "ExternalWorkloads that nobody can read",
            unreadable,
        ),
        (
            "workloads_left_out",
            "ExternalWorkloads that a Service selects and leaves out",
            left_out,
        ),
        (
            "workloads_refused",
            "ExternalWorkloads that have an address which is the cluster's own, or that a flag refuses",
            refused,
        ),
        ("slices", "EndpointSlices of ExternalWorkloads", slices),
        ("slice_endpoints", "Endpoints in them", endpoints),
        (
            "services_waiting",
            "Services whose slices are to be looked at",
            waiting,
        ),
        (
            "services_given_up",
            "Services whose slices could not be written",
            given_up,
        ),
        (
            "probed_workloads",
            "ExternalWorkloads that are looked at for being ready",
            probed,
        ),
    ] {
        registry.register(name, help, gauge.clone());
    }
    registry.register(
        "slice_writes",
        "EndpointSlices written, by operation",
        writes.clone(),
    );
    registry.register(
        "service_syncs",
        "Looks at the slices of a Service, by what became of it",
        syncs.clone(),
    );
    registry.register(
        "service_drops",
        "How often a Service was given up",
        drops.clone(),
    );
    registry.register(
        "probes",
        "Looks at ExternalWorkloads, by what became of them",
        probes.clone(),
    );
    registry.register(
        "late_probes",
        "Looks at ExternalWorkloads that had to wait for others to end",
        late_probes.clone(),
    );
}

impl Answers for Metrics {
    async fn answer(&self, request: Request<Incoming>, _peer: Peer) -> Answer {
        if request.uri().path() != "/metrics" {
            return not_found();
        }
        let accept = request.headers().get(ACCEPT);
        let accept = accept.and_then(|accept| accept.to_str().ok());
        match self.scrape() {
            Ok(metrics) if accept.is_some_and(accepts_open_metrics) => {
                answer(StatusCode::OK, OPEN_METRICS, metrics)
            }
            Ok(metrics) => answer(StatusCode::OK, PLAIN, plain(&metrics)),
            Err(error) => words(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
    }
}
