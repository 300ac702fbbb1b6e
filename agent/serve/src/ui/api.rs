//! The paths of the page, and their answers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::{Bytes, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    http::request::Parts,
};
use serde_json::{Value, json};
use shunt_http::{Answer, Answers, Peer, answer, not_found};
use tokio::time::timeout;

use crate::ui::{
    assets,
    connections::{NoPage, connections},
    door::{Door, guarded},
    events::{Events, NoEvents, events},
    live::live,
    parameters::Parameters,
    sampler::Sampler,
    service::{latest, service},
    status::LastStatus,
    topology::topology,
    trace::{NoTrace, told},
    turn::Turn,
};

/// Maximum length of a token that is handed in, in bytes.
const LENGTH: usize = 1024;

/// Maximum time for it to arrive.
const PATIENCE: Duration = Duration::from_secs(5);

/// Number of lines of the list of refusals.
const REFUSALS: usize = 200;

/// The page, and all that it asks for.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) door: Door,
    pub(super) sampler: Arc<Sampler>,
    /// Number of this run of the agent: what a page has seen of another one does not count.
    pub(super) run: u64,
    /// Hash of the page's files.
    pub(super) build: String,
    pub(super) reading: Turn,
    pub(super) status: LastStatus,
    pub(super) tracing: Turn,
    pub(super) events: Events,
}

impl Answers for Page {
    async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Answer {
        guarded(self.respond(request, peer).await)
    }
}

impl Page {
    async fn respond(&self, request: Request<Incoming>, peer: Peer) -> Answer {
        if let Some(refusal) = self.door.refusal(&request) {
            return refusal;
        }
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        if let "/login" | "/logout" = path {
            return self.session(&parts, body, peer).await;
        }
        let Some(path) = path.strip_prefix("/api/") else {
            // Anybody can read these in the source.
            return assets::find(path).map_or_else(not_found, asset);
        };
        let admitted = match &self.door.sign_in {
            Some(sign_in) => sign_in.admit(&parts.headers, peer, Instant::now()),
            None => Ok(false),
        };
        let signed_in = match admitted {
            Ok(signed_in) => signed_in,
            Err(refusal) => return *refusal,
        };
        match self.tell(path, &Parameters::of(parts.uri.query())).await {
            Ok(mut value) => {
                if path == "live" {
                    value["build"] = self.build.as_str().into();
                    value["signed_in"] = signed_in.into();
                }
                json_answer(StatusCode::OK, &value)
            }
            Err((status, error)) => json_answer(status, &json!({ "error": error })),
        }
    }

    /// Begins or ends the session of a browser.
    async fn session(&self, parts: &Parts, body: Incoming, peer: Peer) -> Answer {
        let sign_in = self.door.sign_in.as_ref();
        let Some(sign_in) = sign_in.filter(|_| parts.method == Method::POST) else {
            return not_found();
        };
        if parts.uri.path() == "/logout" {
            return sign_in.sign_out(&parts.headers);
        }
        let body = timeout(PATIENCE, Limited::new(body, LENGTH).collect()).await;
        let given = match body {
            Ok(Ok(body)) => body.to_bytes(),
            _ => Bytes::new(),
        };
        sign_in.sign_in(&given, &parts.headers, peer, Instant::now())
    }

    /// Returns the content of a path, or why there is none.
    async fn tell(
        &self,
        path: &str,
        parameters: &Parameters,
    ) -> Result<Value, (StatusCode, String)> {
        let sampler = &*self.sampler;
        let bad = |error| (StatusCode::BAD_REQUEST, error);
        let failed = |error| (StatusCode::INTERNAL_SERVER_ERROR, error);
        let nothing = |what: &str| (StatusCode::NOT_FOUND, format!("there is no such {what}"));
        match path {
            "live" => live(sampler, self.run, parameters).await.map_err(bad),
            "service" => {
                let name = parameters.text("name").unwrap_or_default();
                let found = service(sampler, name).await;
                found.ok_or_else(|| nothing("service"))
            }
            "topology" => topology(sampler, parameters).await.map_err(bad),
            "connections" => {
                let page = connections(sampler, &self.reading, parameters).await;
                page.map_err(|error| match error {
                    NoPage::Bad(error) => bad(error),
                    NoPage::Busy => (
                        StatusCode::SERVICE_UNAVAILABLE,
                        "the connections are being read already".to_owned(),
                    ),
                    NoPage::Unreadable(error) => failed(error),
                })
            }
            "events" => {
                let told = events(sampler, &self.events, self.run, parameters).await;
                told.map_err(|error| match error {
                    NoEvents::Bad(error) => bad(error),
                    NoEvents::Failed(error) => failed(error),
                })
            }
            "changes" => Ok(latest(sampler.changes())),
            "refusals" => Ok(refusals(sampler).await),
            "status" => {
                let status = self.status.get(sampler.inspector()).await;
                status.map_err(|error| failed(error.to_string()))
            }
            "trace" => {
                let told = told(sampler.inspector(), &self.tracing, parameters).await;
                told.map_err(|error| match error {
                    NoTrace::Bad(error) => bad(error),
                    NoTrace::Busy => (
                        StatusCode::SERVICE_UNAVAILABLE,
                        "other traces are under way: ask again in a moment".to_owned(),
                    ),
                    NoTrace::Failed(error) => failed(error),
                })
            }
            _ => Err(nothing("path")),
        }
    }
}

/// Returns the refusals of each service port by cause, the most first.
async fn refusals(sampler: &Sampler) -> Value {
    sampler.freshen().await;
    let seen = sampler.seen();
    let ports = seen.services.iter();
    let mut lines: Vec<_> = ports
        .flat_map(|figures| {
            let refused = figures.counters.refused.iter();
            refused.map(move |(reason, count)| (*count, &figures.service, &figures.port, reason))
        })
        .filter(|(count, ..)| *count > 0)
        .collect();
    lines.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
    lines.truncate(REFUSALS);
    let lines = lines.into_iter();
    let lines = lines
        .map(|(count, service, port, reason)| json!([service.to_string(), &**port, reason, count]));
    json!({ "refusals": lines.collect::<Vec<_>>() })
}

fn asset(asset: &assets::Asset) -> Answer {
    let mut answer = Answer::new(Full::new(Bytes::from_static(asset.bytes)));
    let kind = HeaderValue::from_static(asset.kind);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

fn json_answer(status: StatusCode, value: &Value) -> Answer {
    answer(status, "application/json", value.to_string())
}
