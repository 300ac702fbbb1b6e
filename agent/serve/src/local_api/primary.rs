//! The primary's server for the agents of other datacenters: they read the records of all, and each writes
//! its own. Each client has the token of a datacenter.

use std::{convert::Infallible, io, net::TcpListener as StdListener, sync::Arc, time::Duration};

use hyper::{
    Method, Request, StatusCode, body::Incoming, server::conn::http1, service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use shunt_catalog::{Federation, Gateway};
use shunt_http::{Answer, not_found, text};
use shunt_runtime::give_way;
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{self, Runtime},
    sync::Semaphore,
    task::JoinSet,
    time::sleep,
};
use tracing::{debug, warn};

use crate::local_api::{
    federation::all,
    request::{self, Parameters, decoded},
    stalled::Stalled,
};

/// Maximum number of connections at once; others wait in the kernel.
const CONNECTIONS: usize = 512;

/// Maximum time that a client may take to ask.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time to wait if the kernel has no more files for us.
const PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of a datacenter's gateways.
const GATEWAYS: usize = 1024;

/// The name of the header with the token.
const TOKEN: &str = "x-consul-token";

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct FederationServer {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl FederationServer {
    /// Begins to serve at `listener` what `federation` knows.
    ///
    /// # Errors
    ///
    /// If its thread cannot be started.
    pub fn start(listener: StdListener, federation: Federation) -> io::Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("federation-api")
            .on_thread_start(give_way)
            .enable_all()
            .build()?;
        listener.set_nonblocking(true)?;
        let inside = runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        drop(inside);
        runtime.spawn(accept(listener, federation));
        Ok(Self {
            runtime: Some(runtime),
        })
    }
}

/// Takes connections and answers them, for ever. Dropped, it ends them all.
async fn accept(listener: TcpListener, federation: Federation) -> Infallible {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // It is never closed.
        let place = Arc::clone(&room).acquire_owned().await;
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let federation = federation.clone();
                connections.spawn(async move {
                    answer(stream, &federation).await;
                    drop(place);
                });
            }
            Err(error) => {
                debug!(%error, "a connection was not taken");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn answer(stream: TcpStream, federation: &Federation) {
    // Answers are short, and wait for no other.
    let _ = stream.set_nodelay(true);
    let from = stream.peer_addr();
    let service = service_fn(|request| {
        let from = &from;
        async move {
            let answer = respond(federation, request).await;
            let answer = answer.unwrap_or_else(|refused| {
                if let (true, Ok(from)) = (refused.status() == StatusCode::FORBIDDEN, from) {
                    warn!("federation: {from} has no token that counts");
                }
                *refused
            });
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(Stalled::new(TokioIo::new(stream)), service);
    if let Err(error) = connection.await {
        debug!(%error, "a connection has ended");
    }
}

async fn respond(
    federation: &Federation,
    request: Request<Incoming>,
) -> Result<Answer, Box<Answer>> {
    let refused = |status, reason: &str| Box::new(text(status, reason));
    let token = request.headers().get(TOKEN);
    let token = token.and_then(|token| token.to_str().ok());
    let owner = token.and_then(|token| federation.tokens().owner(token));
    let Some(owner) = owner else {
        return Err(refused(StatusCode::FORBIDDEN, "Permission denied"));
    };
    let path = request.uri().path().to_owned();
    let method = request.method().clone();
    if path == "/v1/federation-states" && method == Method::GET {
        let asked = Parameters::of(request.uri().query());
        return Ok(all(federation, &asked).await);
    }
    let Some(datacenter) = path.strip_prefix("/v1/federation-state/").map(decoded) else {
        return Err(Box::new(not_found()));
    };
    if method != Method::PUT {
        let reason = format!("method {method} not allowed");
        return Err(refused(StatusCode::METHOD_NOT_ALLOWED, &reason));
    }
    if datacenter != owner {
        let reason =
            format!("Permission denied: this is the token of {owner}, and not of {datacenter}");
        return Err(refused(StatusCode::FORBIDDEN, &reason));
    }
    let body = request::json(request.into_body()).await?;
    let gateways: Vec<Gateway> = serde_json::from_value(body).map_err(|error| {
        let reason = format!("Request decode failed: {error}");
        refused(StatusCode::BAD_REQUEST, &reason)
    })?;
    if gateways.len() > GATEWAYS {
        let reason = format!("a datacenter has {GATEWAYS} gateways at most");
        return Err(refused(StatusCode::BAD_REQUEST, &reason));
    }
    let kept = federation.put(&datacenter, gateways).await;
    kept.map_err(|error| refused(StatusCode::INTERNAL_SERVER_ERROR, &error))?;
    Ok(text(StatusCode::OK, "true"))
}

impl Drop for FederationServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A client that waits sees the connection's end.
            runtime.shutdown_background();
        }
    }
}
