//! The server of linkerd's destination API, which has threads of its own.

use std::{io, time::Duration};

use linkerd2_proxy_api::destination::destination_server::DestinationServer;
use shunt_http::{ServeListener, SocketFile};
use shunt_runtime::{Inspector, give_way};
use tokio::{
    net::{TcpListener, UnixListener},
    runtime::{self, Runtime},
};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::{Router, TcpIncoming};
use tonic_health::{ServingStatus, server::HealthReporter};
use tracing::error;

use crate::linkerd::{destination::DestinationService, settings::LinkerdSettings};

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
    /// Begins to serve at `listener` what `inspector` finds, with health and reflection beside it.
    ///
    /// # Errors
    ///
    /// If its threads cannot be started.
    pub fn start(
        listener: ServeListener,
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
        let destination = DestinationServer::new(DestinationService::new(inspector, settings));
        let description = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTION)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let router = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .add_service(destination)
            .add_service(health)
            .add_service(description().build_v1().map_err(io::Error::other)?)
            // Older clients know this one alone.
            .add_service(description().build_v1alpha().map_err(io::Error::other)?);
        let socket = serve(&runtime, listener, router)?;
        Ok(Self {
            runtime: Some(runtime),
            _socket: socket,
        })
    }
}

/// Reports the API, and the server as a whole, as serving from the first Resync on: before, calls wait.
async fn report(reporter: HealthReporter, inspector: Inspector) {
    type Service = DestinationServer<DestinationService>;
    let whole = "";
    reporter.set_not_serving::<Service>().await;
    reporter
        .set_service_status(whole, ServingStatus::NotServing)
        .await;
    if inspector.has_begun().await.is_ok() {
        reporter.set_serving::<Service>().await;
        reporter
            .set_service_status(whole, ServingStatus::Serving)
            .await;
    }
}

/// Serves in the background; returns the socket's file, which is there as long as it is served.
fn serve(
    runtime: &Runtime,
    listener: ServeListener,
    router: Router,
) -> io::Result<Option<SocketFile>> {
    let _inside = runtime.enter();
    let (served, socket) = match listener {
        ServeListener::Tcp(listener) => {
            let incoming = TcpIncoming::from(TcpListener::from_std(listener)?);
            // Messages are short, and wait for no other.
            let incoming = incoming.with_nodelay(Some(true));
            (runtime.spawn(router.serve_with_incoming(incoming)), None)
        }
        ServeListener::Unix(mut socket) => {
            let listener = UnixListener::from_std(socket.take_listener()?)?;
            let incoming = UnixListenerStream::new(listener);
            let served = runtime.spawn(router.serve_with_incoming(incoming));
            (served, Some(socket))
        }
    };
    runtime.spawn(async move {
        if let Ok(Err(error)) = served.await {
            error!(%error, "linkerd's destination API is no longer served");
        }
    });
    Ok(socket)
}

impl Drop for LinkerdServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A follower sees the connection's end.
            runtime.shutdown_background();
        }
    }
}
