//! Requests and answers.

use std::{convert::Infallible, future::pending, io, pin::pin, sync::Arc, time::Duration};

use http_body_util::{BodyExt, Collected, StreamBody, combinators::BoxBody};
use hyper::{
    Method, Request, Response,
    body::{Bytes, Frame, Incoming},
    header::HeaderValue,
    http::uri::PathAndQuery,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc::{self, Sender, error::SendError},
    time::{Instant, sleep, sleep_until},
};
use tokio_rustls::server::TlsStream;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};

use super::{
    Shared,
    cluster::{Forgotten, StatusError},
    events, exec,
    faults::Faults,
    kind::Kind,
    leases,
    marks::Marked,
    object::Object,
    query::query,
    selector::Selector,
    target::Target,
};

/// The name of HTTP/1.1 (ALPN).
pub const HTTP1: &[u8] = b"http/1.1";

/// The name of HTTP/2 (ALPN).
pub const HTTP2: &[u8] = b"h2";

/// Interval of the bookmarks of a watch.
const BOOKMARK: Duration = Duration::from_secs(1);

/// The type of a merge patch.
const MERGE: &str = "application/merge-patch+json";

/// A piece of a slow answer.
const PIECE: usize = 64;

/// The next piece of an answer; an error cuts the connection.
type Piece = io::Result<Bytes>;

type Body = BoxBody<Bytes, io::Error>;

/// The client does not read the answer any more.
struct Unread;

impl From<SendError<Piece>> for Unread {
    fn from(_: SendError<Piece>) -> Self {
        Self
    }
}

/// Answers the requests of a connection.
pub(super) async fn answer(stream: TlsStream<Marked>, shared: Arc<Shared>) -> hyper::Result<()> {
    let mut goaway = shared.goaway.subscribe();
    let service = service_fn(move |request: Request<Incoming>| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(respond(request, shared).await) }
    });
    let (_, tls) = stream.get_ref();
    let is_http2 = tls.alpn_protocol() == Some(HTTP2);
    let stream = TokioIo::new(stream);
    if is_http2 {
        let server = http2::Builder::new(TokioExecutor::new());
        let mut connection = pin!(server.serve_connection(stream, service));
        tokio::select! {
            ended = &mut connection => return ended,
            _ = goaway.changed() => connection.as_mut().graceful_shutdown(),
        }
        return connection.await;
    }
    let server = http1::Builder::new();
    server
        .serve_connection(stream, service)
        .with_upgrades()
        .await
}

/// Parameters of a request.
struct Asked {
    kind: Kind,
    selector: Selector,
    limit: Option<usize>,
    /// Place where a list goes on, if that is not its beginning.
    page: Option<Page>,
    version: u64,
    bookmarks: bool,
    faults: Faults,
}

/// A page of a list that is not its first. All pages have the version of the first: what changes
/// meanwhile is sent to a watch from there on.
#[derive(Clone, Copy)]
struct Page {
    from: usize,
    version: u64,
}

impl Page {
    fn of(token: &str) -> Option<Self> {
        let (from, version) = token.split_once('.')?;
        Some(Self {
            from: from.parse().ok()?,
            version: version.parse().ok()?,
        })
    }

    fn token(self) -> String {
        format!("{}.{}", self.from, self.version)
    }
}

async fn respond(request: Request<Incoming>, shared: Arc<Shared>) -> Response<Body> {
    let uri = request.uri().clone();
    let method = request.method().clone();
    // By HTTP/2 it has the server's name, too.
    let asked = uri.path_and_query().map_or("", PathAndQuery::as_str);
    shared
        .requests()
        .push((method.to_string(), asked.to_owned()));
    let token = request.headers().get("authorization");
    let token = token
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if token != format!("Bearer {}", *shared.token()) {
        return failure(401, "Unauthorized", 0);
    }
    let faults = shared.faults().clone();
    if let Some(status) = faults.status {
        return fault(status, &faults);
    }
    if let Some(asked) = events::Asked::of(method.as_str(), uri.path()) {
        if let Some(status) = faults.events {
            return failure(status, "a fault", 0);
        }
        let body = whole_body(request).await;
        return match shared.events().answer(asked, &body) {
            Ok((status, event)) => whole(status, event.to_string().into()),
            Err((status, message)) => failure(status, message, 0),
        };
    }
    if let Some(asked) = leases::Asked::of(method.as_str(), uri.path()) {
        if faults.holds_leases {
            return pending().await;
        }
        let body = whole_body(request).await;
        return match shared.leases().answer(asked, &body) {
            Ok((status, lease)) => whole(status, lease.to_string().into()),
            Err((status, reason)) => refusal(status, reason),
        };
    }
    if let Some(asked) = exec::Asked::of(uri.path(), uri.query().unwrap_or_default()) {
        return run(request, asked, shared);
    }
    let target = Target::of(uri.path());
    let target = target.filter(|target| {
        faults.lacks != Some(target.kind) && shared.cluster().serves(target.kind, &target.version)
    });
    let Some(target) = target else {
        return failure(404, "the server could not find the requested resource", 0);
    };
    if method == Method::PATCH {
        if !target.is_status || !target.kind.has_status() {
            return failure(405, "only the status of routes is patched", 0);
        }
        let content_type = request.headers().get("content-type");
        if content_type.is_none_or(|value| value != MERGE) {
            return failure(415, "only merge patches are taken", 0);
        }
        if let Some(status) = faults.statuses {
            return fault(status, &faults);
        }
        let body = whole_body(request).await;
        return patch_status(&target, &body, &shared);
    }
    if method != Method::GET {
        if target.kind != Kind::EndpointSlice {
            return failure(405, "only slices are written", 0);
        }
        if let Some(status) = faults.slices {
            if faults.is_plain {
                return fault(status, &faults);
            }
            let mut answer = self::status(status, "a fault", faults.retry_after);
            if let Some(cause) = faults.cause {
                answer["details"]["causes"] = json!([{ "reason": cause }]);
            }
            return whole(status, answer.to_string().into());
        }
        let body = whole_body(request).await;
        return write(&method, &target, &body, &shared);
    }
    read(target, uri.query().unwrap_or_default(), faults, shared).await
}

/// Changes the protocol of the connection, and runs a command there.
fn run(request: Request<Incoming>, asked: exec::Asked, shared: Arc<Shared>) -> Response<Body> {
    let exec::Asked {
        namespace,
        pod,
        container,
        ..
    } = &asked;
    if shared.faults().execs {
        return failure(403, "pods \"exec\" is forbidden: no right", 0);
    }
    if shared.cluster().get(Kind::Pod, namespace, pod).is_none() {
        return failure(404, &format!("pods \"{pod}\" not found"), 0);
    }
    let Some(accepted) = exec::accepted(request.headers()) else {
        return failure(400, "Upgrade request required", 0);
    };
    let key = [namespace, pod, container].map(String::as_str).join("/");
    let Some(found) = shared.containers().get(&key).cloned() else {
        let text = "error dialing backend: dial tcp 192.168.16.12:10250: connect: no route to host";
        return failure(500, text, 0);
    };
    exec::run(request, asked, found, shared);
    let mut response = whole(101, Bytes::new());
    let headers = response.headers_mut();
    for (name, value) in [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-accept", &*accepted),
        ("sec-websocket-protocol", exec::PROTOCOL),
    ] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    response
}

/// Answers with an object, a list, or a watch.
async fn read(
    target: Target,
    parameters: &str,
    faults: Faults,
    shared: Arc<Shared>,
) -> Response<Body> {
    let kind = target.kind;
    if let Some(name) = &target.name {
        return match shared.cluster().get(kind, &target.namespace, name) {
            Some(object) => whole(200, object.clone()),
            None => failure(404, "there is none of this name", 0),
        };
    }
    let query = query(parameters);
    let value = |name: &str| {
        let found = query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    };
    let number = |name: &str| value(name).and_then(|text| text.parse::<u64>().ok());
    if faults.forbidden == Some(kind) && value("fieldSelector").is_none() {
        return failure(403, "it is forbidden", 0);
    }
    let watches = value("watch") == Some("true");
    if let Some(status) = faults.watches.filter(|_| watches) {
        return failure(status, "a fault", 0);
    }
    if !watches {
        wait_until_given(kind, &shared).await;
    }
    let asked = Asked {
        kind,
        selector: Selector::new(value("labelSelector"), value("fieldSelector"))
            .within(&target.namespace),
        limit: faults.page.or(number("limit").map(|limit| limit as usize)),
        page: value("continue").and_then(Page::of),
        version: number("resourceVersion").unwrap_or(0),
        bookmarks: value("allowWatchBookmarks") == Some("true"),
        faults,
    };
    if asked.page.is_some() && asked.faults.forgets_pages {
        return failure(410, "the continue token is too old", 0);
    }
    let (pieces, receiver) = mpsc::channel(16);
    tokio::spawn(async move {
        // A client that does not read on has gone.
        let _end: Result<(), Unread> = if watches {
            watch(asked, &shared, &pieces).await
        } else {
            list(&asked, &shared, &pieces).await
        };
    });
    ok(receiver)
}

async fn whole_body(request: Request<Incoming>) -> Bytes {
    let body = request.into_body().collect().await;
    body.map_or_else(|_| Bytes::new(), Collected::to_bytes)
}

/// Makes, replaces or removes an object.
fn write(method: &Method, target: &Target, body: &[u8], shared: &Shared) -> Response<Body> {
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return failure(400, "no JSON", 0);
    };
    let is_new = *method == Method::POST;
    let outcome = {
        let mut cluster = shared.cluster();
        match method.as_str() {
            "POST" => cluster.create(target, body),
            "PUT" => cluster.replace(target, body),
            "DELETE" => cluster.remove(target, &body),
            _ => return failure(405, "no such method", 0),
        }
    };
    shared.changed.send_modify(|count| *count += 1);
    if outcome.is_ok() {
        shared.marks.is_written();
    }
    match outcome {
        Ok(object) => whole(if is_new { 201 } else { 200 }, object),
        Err(StatusError::Missing) => failure(404, "there is none of this name", 0),
        Err(StatusError::Conflict) => refusal(409, "Conflict"),
        Err(StatusError::Invalid) => failure(422, "it is not valid", 0),
    }
}

fn patch_status(target: &Target, body: &[u8], shared: &Shared) -> Response<Body> {
    let Ok(patch) = serde_json::from_slice(body) else {
        return failure(400, "no JSON", 0);
    };
    let outcome = shared.cluster().patch_status(target, &patch);
    shared.changed.send_modify(|count| *count += 1);
    match outcome {
        Ok(object) => whole(200, object),
        Err(StatusError::Missing) => failure(404, "there is none of this name", 0),
        Err(StatusError::Conflict) => refusal(409, "Conflict"),
        Err(StatusError::Invalid) => failure(422, "status.parents: too many", 0),
    }
}

/// Waits as long as lists of this kind are withheld.
async fn wait_until_given(kind: Kind, shared: &Shared) {
    let mut changed = shared.changed.subscribe();
    while shared.faults().withheld == Some(kind) {
        if changed.changed().await.is_err() {
            return;
        }
    }
}

async fn list(asked: &Asked, shared: &Shared, pieces: &Sender<Piece>) -> Result<(), Unread> {
    let text = {
        let cluster = shared.cluster();
        let begin = Page {
            from: 0,
            version: cluster.version(),
        };
        let Page { from, version } = asked.page.unwrap_or(begin);
        let objects = cluster.list(asked.kind, &asked.selector, from);
        let count = asked.limit.unwrap_or(objects.len()).min(objects.len());
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if count < objects.len() {
            let from = from + count;
            metadata["continue"] = Page { from, version }.token().into();
        }
        page(asked.kind, &metadata, &objects[..count])
    };
    shared.marks.list_begins();
    if asked.faults.half_lists {
        return half(&text, pieces).await;
    }
    send(text, asked.faults.pause, pieces).await
}

async fn watch(mut asked: Asked, shared: &Shared, pieces: &Sender<Piece>) -> Result<(), Unread> {
    let mut changed = shared.changed.subscribe();
    let mut bookmark = Instant::now() + BOOKMARK;
    // The answer begins before there is anything to send.
    pieces.send(Ok(Bytes::new())).await?;
    loop {
        let (events, version) = {
            let cluster = shared.cluster();
            let events = cluster.since(asked.version, asked.kind, &asked.selector);
            (events, cluster.version())
        };
        let faults = shared.faults().clone();
        match events {
            Ok(events) => {
                for line in events {
                    if faults.half_events {
                        return half(&line, pieces).await;
                    }
                    send(line, faults.pause, pieces).await?;
                }
            }
            Err(Forgotten) => {
                let gone = status(410, "too old resource version", 0);
                let line = json!({ "type": "ERROR", "object": gone });
                return send(format!("{line}\n").into(), None, pieces).await;
            }
        }
        asked.version = version;
        tokio::select! {
            _ = changed.changed() => {}
            () = sleep_until(bookmark), if asked.bookmarks && !faults.no_bookmarks => {
                bookmark = Instant::now() + BOOKMARK;
                let object = json!({
                    "kind": asked.kind.name(), "apiVersion": "v1",
                    "metadata": { "resourceVersion": version.to_string() },
                });
                let line = json!({ "type": "BOOKMARK", "object": object });
                send(format!("{line}\n").into(), None, pieces).await?;
            }
            () = pieces.closed() => return Err(Unread),
        }
    }
}

/// A page of a list: its objects are joined as they are.
fn page(kind: Kind, metadata: &Value, objects: &[Arc<Object>]) -> Bytes {
    let begin = json!({
        "kind": format!("{}List", kind.name()), "apiVersion": "v1", "metadata": metadata,
    });
    let mut text = begin.to_string();
    text.truncate(text.len() - 1);
    let mut text = text.into_bytes();
    text.extend_from_slice(br#","items":["#);
    for (number, object) in objects.iter().enumerate() {
        if number > 0 {
            text.push(b',');
        }
        text.extend_from_slice(object.text());
    }
    text.extend_from_slice(b"]}");
    text.into()
}

/// Sends a text, all at once or piece by piece.
async fn send(text: Bytes, pause: Option<Duration>, pieces: &Sender<Piece>) -> Result<(), Unread> {
    let Some(pause) = pause else {
        return Ok(pieces.send(Ok(text)).await?);
    };
    for piece in text.chunks(PIECE) {
        pieces.send(Ok(Bytes::copy_from_slice(piece))).await?;
        sleep(pause).await;
    }
    Ok(())
}

/// Sends the first half of a text, and cuts the connection.
async fn half(text: &Bytes, pieces: &Sender<Piece>) -> Result<(), Unread> {
    pieces.send(Ok(text.slice(..text.len() / 2))).await?;
    Ok(pieces.send(Err(io::Error::other("cut off"))).await?)
}

fn ok(pieces: mpsc::Receiver<Piece>) -> Response<Body> {
    let frames = ReceiverStream::new(pieces).map(|piece| piece.map(Frame::data));
    Response::new(BodyExt::boxed(StreamBody::new(frames)))
}

/// An answer that is an error.
fn failure(code: u16, message: &str, retry_after: u32) -> Response<Body> {
    whole(code, status(code, message, retry_after).to_string().into())
}

/// An answer that is an error of a bad day.
fn fault(code: u16, faults: &Faults) -> Response<Body> {
    if !faults.is_plain {
        return failure(code, "a fault", faults.retry_after);
    }
    let mut answer = whole(
        code,
        Bytes::from_static(b"Too many requests, please try again later.\n"),
    );
    let headers = answer.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("text/plain"));
    headers.insert("retry-after", HeaderValue::from(faults.retry_after));
    answer
}

/// An answer that is one object.
fn whole(code: u16, object: Bytes) -> Response<Body> {
    let (pieces, receiver) = mpsc::channel(1);
    drop(pieces.try_send(Ok(object)));
    let mut response = ok(receiver);
    if let Ok(code) = code.try_into() {
        *response.status_mut() = code;
    }
    response
}

/// An answer that is an error with one of the API's reasons.
fn refusal(code: u16, reason: &str) -> Response<Body> {
    let mut status = status(code, reason, 0);
    status["reason"] = reason.into();
    whole(code, status.to_string().into())
}

fn status(code: u16, message: &str, retry_after: u32) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": message, "reason": "", "code": code,
        "details": { "retryAfterSeconds": retry_after },
    })
}
