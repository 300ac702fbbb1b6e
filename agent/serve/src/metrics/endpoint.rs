//! Answers at the metrics address, as kube-proxy's.

use std::{fmt, sync::Arc, time::Duration};

use hyper::{Request, StatusCode, body::Incoming, header::ACCEPT};
use prometheus_client::{encoding::text, registry::Registry};
use shunt_http::{Answer, Answers, Peer, answer, not_found, text as words};
use shunt_runtime::{Inspector, Reports};
use tokio::time::timeout;
use tracing::debug;

use crate::metrics::{
    agent::AgentState,
    consul::Followed,
    datapath::Counted,
    local::Registered,
    meters::register,
    process::Process,
    process_use::ProcessUse,
    services::CountedServices,
    text::{OPEN_METRICS, PLAIN, accepts_open_metrics, plain},
};

/// Time that a scrape waits for the event loop, which may be in the middle of a large Resync.
const PATIENCE: Duration = Duration::from_secs(3);

/// Answer of `/proxyMode`: none of kube-proxy's modes, which tools would look for rules of.
const MODE: &str = "shunt";

/// Answers for the agent.
#[derive(Debug)]
pub(crate) struct MetricsEndpoint {
    inspector: Inspector,
    /// Meters that are updated where things happen.
    meters: Registry,
    configuration: String,
    /// True if what is counted of each service port is shown.
    shows_services: bool,
}

impl MetricsEndpoint {
    /// By what `inspector` sees, with this answer to `/configz`, and with or without what is counted of each
    /// service port.
    pub(crate) fn new(inspector: Inspector, configuration: String, shows_services: bool) -> Self {
        let mut meters = Registry::default();
        register(inspector.reports().meters(), &mut meters);
        Self {
            inspector,
            meters,
            configuration,
            shows_services,
        }
    }

    /// All metrics, in OpenMetrics.
    async fn scrape(&self) -> Result<String, fmt::Error> {
        let mut scraped = Registry::default();
        let figures = timeout(PATIENCE, self.inspector.figures()).await;
        let reports: &Arc<Reports> = self.inspector.reports();
        scraped.register_collector(Box::new(AgentState {
            figures: figures.ok().and_then(Result::ok),
            health: reports.health(),
            oldest_change: reports.oldest_change(),
            sources: reports.sources(),
            listeners: reports.listeners().borrow().clone(),
        }));
        if let Some(local) = reports.local() {
            scraped.register_collector(Box::new(Registered(local)));
        }
        scraped.register_collector(Box::new(Followed(reports.consul())));
        match self.inspector.counters() {
            Ok(counters) => scraped.register_collector(Box::new(Counted(counters))),
            Err(error) => debug!(%error, "the counters are left out"),
        }
        if self.shows_services {
            match self.inspector.services() {
                Ok(services) => scraped.register_collector(Box::new(CountedServices(services))),
                Err(error) => debug!(%error, "the services' counters are left out"),
            }
        }
        match ProcessUse::read() {
            Ok(taken) => scraped.register_collector(Box::new(Process {
                taken,
                started: reports.meters().started,
            })),
            Err(error) => debug!(%error, "what the process takes is left out"),
        }
        let mut metrics = String::new();
        text::encode_registry(&mut metrics, &self.meters)?;
        text::encode_registry(&mut metrics, &scraped)?;
        text::encode_eof(&mut metrics)?;
        Ok(metrics)
    }

    async fn metrics(&self, request: &Request<Incoming>) -> Answer {
        let accept = request.headers().get(ACCEPT);
        let accept = accept.and_then(|accept| accept.to_str().ok());
        match self.scrape().await {
            Ok(metrics) if accept.is_some_and(accepts_open_metrics) => {
                answer(StatusCode::OK, OPEN_METRICS, metrics)
            }
            Ok(metrics) => answer(StatusCode::OK, PLAIN, plain(&metrics)),
            Err(error) => words(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
    }
}

impl Answers for MetricsEndpoint {
    async fn answer(&self, request: Request<Incoming>, _peer: Peer) -> Answer {
        match request.uri().path() {
            "/metrics" => self.metrics(&request).await,
            "/healthz" => words(StatusCode::OK, "ok"),
            "/proxyMode" => words(StatusCode::OK, MODE),
            "/configz" => answer(
                StatusCode::OK,
                "application/json",
                self.configuration.clone(),
            ),
            _ => not_found(),
        }
    }
}
