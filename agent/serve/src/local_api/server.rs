//! The server of the API, which has a thread of its own.

use std::{io, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming};
use shunt_catalog::{Federation, Registrar};
use shunt_http::{
    Answer, Answers, Limits, Listening, Peer, ServeListener, SocketFile, accept_from,
};
use shunt_runtime::give_way;
use tokio::runtime::{self, Runtime};

use crate::local_api::route::respond;

const LIMITS: Limits = Limits {
    // More than may wait for a service to change, so that others are answered beside these.
    connections: 5120,
    // Consul's clients keep connections, and use them again.
    patience: Duration::from_secs(30),
    // A request may wait for minutes.
    lifetime: None,
};

/// A running server. Dropping it ends it, and removes its socket if it has one.
#[derive(Debug)]
pub struct LocalApiServer {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    _socket: Option<SocketFile>,
}

/// Sources of the answers.
#[derive(Debug, Clone)]
struct Known(Registrar, Option<Federation>);

impl LocalApiServer {
    /// Begins to serve at `listener` what `registrar` knows, and `federation` of other datacenters.
    ///
    /// # Errors
    ///
    /// If its thread cannot be started.
    pub fn start(
        listener: ServeListener,
        registrar: Registrar,
        federation: Option<Federation>,
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("local-api")
            .on_thread_start(give_way)
            .enable_all()
            .build()?;
        let inside = runtime.enter();
        let (listening, socket) = Listening::at(listener)?;
        drop(inside);
        let known = Arc::new(Known(registrar, federation));
        runtime.spawn(accept_from(listening, LIMITS, known));
        Ok(Self {
            runtime: Some(runtime),
            _socket: socket,
        })
    }
}

impl Answers for Known {
    async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Answer {
        let Self(registrar, federation) = self;
        let is_tcp = matches!(peer, Peer::Address(_));
        respond(registrar, federation.as_ref(), request, is_tcp).await
    }
}

impl Drop for LocalApiServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A client that waits sees the connection's end.
            runtime.shutdown_background();
        }
    }
}
