//! All that is asked over HTTP, on a thread of its own: it answers when the event loop does not.

use std::{io, mem, net::SocketAddr, sync::Arc};

use shunt_http::{Door, Try};
use shunt_runtime::{Inspector, IpFamily, Listener, Reports};
use thiserror::Error;
use tokio::runtime::{self, Runtime};

use crate::{
    health::{probes::Probes, proxy::ProxyHealth, services},
    metrics::endpoint::MetricsEndpoint,
};

/// Servers and their addresses.
#[derive(Debug, Clone, Default)]
pub struct HttpOptions {
    /// Address for health: `/healthz`, `/livez`.
    pub health: Option<SocketAddr>,
    /// Address for kubelet's probes: `/livez`, `/readyz`. It is no error if this cannot be had.
    pub probes: Option<SocketAddr>,
    /// Address for metrics: `/metrics`, `/healthz`, `/proxyMode`, `/configz`.
    pub metrics: Option<SocketAddr>,
    /// True if it is an error if one of them cannot be had at once. If not, it is tried again.
    pub hard_fail: bool,
    /// Answer of `/configz`: JSON.
    pub configuration: String,
    /// True if the metrics have what is counted of each service port.
    pub shows_services: bool,
    /// The families that are translated.
    pub families: Vec<IpFamily>,
}

/// An address is needed and cannot be had.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The agent cannot listen there.
    #[error("{listener}: cannot listen at {address}: {error}")]
    Listen {
        /// For what.
        listener: Listener,
        /// Address that was tried.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// There is no thread for it.
    #[error("cannot start the threads of the HTTP server: {0}")]
    Threads(io::Error),
}

/// Addresses that are taken, before anything else is: their clients wait.
#[derive(Debug)]
pub struct HttpListeners {
    health: Option<Try>,
    probes: Option<Try>,
    metrics: Option<Try>,
    configuration: String,
    shows_services: bool,
    families: Vec<IpFamily>,
}

impl HttpListeners {
    /// Takes them.
    ///
    /// # Errors
    ///
    /// One of them cannot be had and must be.
    pub fn open(options: HttpOptions) -> Result<Self, HttpError> {
        let HttpOptions {
            health,
            probes,
            metrics,
            hard_fail,
            configuration,
            shows_services,
            families,
        } = options;
        let take = |listener, address: Option<SocketAddr>| match address.map(Try::at) {
            Some(Try {
                address,
                outcome: Err(error),
            }) if hard_fail => Err(HttpError::Listen {
                listener,
                address,
                error,
            }),
            tried => Ok(tried),
        };
        Ok(Self {
            health: take(Listener::Health, health)?,
            probes: probes.map(Try::at),
            metrics: take(Listener::Metrics, metrics)?,
            configuration,
            shows_services,
            families,
        })
    }
}

/// The running servers. Dropping this ends them.
#[derive(Debug)]
pub struct HttpServer {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    reports: Arc<Reports>,
    /// Address where metrics are going to be.
    metrics: Option<Try>,
    configuration: String,
    shows_services: bool,
}

impl HttpServer {
    /// Begins to answer for health, by what is reported, at `listeners` and wherever a service has its
    /// health check. Clients of metrics wait.
    ///
    /// # Errors
    ///
    /// There are no threads for it.
    pub fn start(listeners: HttpListeners, reports: Arc<Reports>) -> Result<Self, HttpError> {
        let HttpListeners {
            health,
            probes,
            metrics,
            configuration,
            shows_services,
            families,
        } = listeners;
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("http")
            .enable_all()
            .build()
            .map_err(HttpError::Threads)?;
        if let Some(tried) = health {
            let answers = ProxyHealth::new(Arc::clone(&reports), families.clone());
            let reports = Arc::clone(&reports);
            runtime.spawn(Door::new(Listener::Health, vec![tried], answers, reports).keep());
        }
        if let Some(tried) = probes {
            let answers = Probes::new(Arc::clone(&reports), families);
            let reports = Arc::clone(&reports);
            runtime.spawn(Door::new(Listener::Probes, vec![tried], answers, reports).keep());
        }
        runtime.spawn(services::serve(Arc::clone(&reports)));
        Ok(Self {
            runtime: Some(runtime),
            reports,
            metrics,
            configuration,
            shows_services,
        })
    }

    /// Begins to answer for metrics, by what `inspector` sees.
    pub fn show(&mut self, inspector: Inspector) {
        if let (Some(runtime), Some(tried)) = (&self.runtime, self.metrics.take()) {
            let configuration = mem::take(&mut self.configuration);
            let answers = MetricsEndpoint::new(inspector, configuration, self.shows_services);
            let reports = Arc::clone(&self.reports);
            runtime.spawn(Door::new(Listener::Metrics, vec![tried], answers, reports).keep());
        }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A client that still waits for an answer sees the connection's end.
            runtime.shutdown_background();
        }
    }
}
