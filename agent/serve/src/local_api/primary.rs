//! The primary's server for the agents of other datacenters: they read the records of all, and each writes
//! its own. Each client has the token of a datacenter.

use std::{
    io,
    net::TcpListener as StdListener,
    sync::Arc,
    time::{Duration, Instant},
};

use hyper::{Method, Request, StatusCode, body::Incoming};
use shunt_catalog::{Federation, Gateway};
use shunt_http::{
    Answer, Answers, Attempts, Limits, Listening, Peer, accept_from, not_found, text,
};
use shunt_runtime::give_way;
use tokio::{
    net::TcpListener,
    runtime::{self, Runtime},
};

use crate::local_api::{
    federation::all,
    request::{self, Parameters, decoded},
};

const LIMITS: Limits = Limits {
    connections: 512,
    patience: Duration::from_secs(5),
    // A request may wait for minutes.
    lifetime: None,
};

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
        let records = Arc::new(Records {
            federation,
            attempts: Attempts::new("federation"),
        });
        runtime.spawn(accept_from(Listening::Tcp(listener), LIMITS, records));
        Ok(Self {
            runtime: Some(runtime),
        })
    }
}

/// The answers to the agents of other datacenters.
#[derive(Debug)]
struct Records {
    federation: Federation,
    attempts: Attempts,
}

impl Answers for Records {
    async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Answer {
        let Self {
            federation,
            attempts,
        } = self;
        respond(federation, request)
            .await
            .unwrap_or_else(|refused| {
                // Counted alone: the agents of a datacenter may share one address.
                if refused.status() == StatusCode::FORBIDDEN {
                    attempts.count(peer, Instant::now());
                }
                *refused
            })
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
