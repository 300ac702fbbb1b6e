//! The server of linkerd's destination API, which has threads of its own.

use std::{io, sync::Arc, time::Duration};

use linkerd2_proxy_api::{
    destination::destination_server::DestinationServer,
    outbound::outbound_policies_server::OutboundPoliciesServer,
};
use shunt_http::{Listening, ServeListener, SocketFile};
use shunt_runtime::{Inspector, give_way};
use tokio::runtime::{self, Runtime};
use tonic::service::Routes;
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{
    calls::{limits::CallLimits, server::serve},
    linkerd::{
        destination::DestinationService, follower::Follower, outbound::service::OutboundService,
        settings::LinkerdSettings,
    },
};

/// Threads: while one makes a large message, the other answers.
const THREADS: usize = 2;

/// Time that a client may be silent until it is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Description of the messages and methods, for clients that do not know them.
const DESCRIPTION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/linkerd.bin"));

/// A running server. Dropping it ends it, and removes its socket if it has one.
#[derive(Debug)]
pub struct LinkerdServer {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    _socket: Option<SocketFile>,
}

impl LinkerdServer {
    /// Begins to serve at `listener`, within `limits`, what `inspector` finds, with health and reflection beside it.
    ///
    /// # Errors
    ///
    /// If its threads cannot be started.
    pub fn start(
        listener: ServeListener,
        limits: CallLimits,
        inspector: Inspector,
        settings: LinkerdSettings,
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("linkerd")
            .on_thread_start(give_way)
            .enable_all()
            .build()?;
        let (reporter, health) = tonic_health::server::health_reporter();
        runtime.spawn(report(reporter, inspector.clone()));
        let settings = Arc::new(settings);
        let follower = Follower::new(inspector, Arc::clone(&settings.cluster_domain));
        let outbound = OutboundService::new(follower.clone(), Arc::clone(&settings));
        let destination = DestinationService::new(follower, settings);
        let description = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTION)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let routes = Routes::new(DestinationServer::new(destination))
            .add_service(OutboundPoliciesServer::new(outbound))
            .add_service(health)
            .add_service(description().build_v1().map_err(io::Error::other)?)
            // Older clients know this one alone.
            .add_service(description().build_v1alpha().map_err(io::Error::other)?);
        let inside = runtime.enter();
        let (listening, socket) = Listening::at(listener)?;
        drop(inside);
        runtime.spawn(serve(listening, limits, Some(KEEP_ALIVE), routes));
        Ok(Self {
            runtime: Some(runtime),
            _socket: socket,
        })
    }
}

/// Reports the API, and the server as a whole, as serving from the first Resync on: before, calls wait.
async fn report(reporter: HealthReporter, inspector: Inspector) {
    type Destinations = DestinationServer<DestinationService>;
    type Policies = OutboundPoliciesServer<OutboundService>;
    let whole = "";
    reporter.set_not_serving::<Destinations>().await;
    reporter.set_not_serving::<Policies>().await;
    reporter
        .set_service_status(whole, ServingStatus::NotServing)
        .await;
    if inspector.has_begun().await.is_ok() {
        reporter.set_serving::<Destinations>().await;
        reporter.set_serving::<Policies>().await;
        reporter
            .set_service_status(whole, ServingStatus::Serving)
            .await;
    }
}

impl Drop for LinkerdServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A follower sees the connection's end.
            runtime.shutdown_background();
        }
    }
}
