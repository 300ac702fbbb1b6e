//! Requests of a secondary to its primary.

use std::{error::Error as _, time::Duration};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, StatusCode, body::Bytes, header::HeaderValue};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::time::timeout;

use crate::local::federation::{
    record::{Gateway, Record},
    states::Remote,
};

/// Time that a read waits for news.
const WAIT: Duration = Duration::from_mins(1);

/// Time that an answer may take beyond that wait.
const MORE: Duration = Duration::from_secs(15);

const CONNECT: Duration = Duration::from_secs(5);

/// Longest answer, in bytes.
const LONGEST: usize = 16 << 20;

/// Number of characters of a refusal that are shown.
const SHOWN: usize = 200;

/// Reads the records of all, at once if the primary's index is another than this one.
pub(super) async fn read(way: &str, token: &str, index: u64) -> Result<Remote, String> {
    let wait = WAIT.as_secs();
    let url = format!("http://{way}/v1/federation-states?index={index}&wait={wait}s");
    // Some wait longer than they are asked to, so that not all come back together.
    let limit = WAIT + WAIT / 16 + MORE;
    let (index, body) = ask(Method::GET, &url, token, Bytes::new(), limit).await?;
    let index = index.ok_or_else(|| format!("{way}: the answer has no index"))?;
    let records: Vec<Record> = serde_json::from_slice(&body)
        .map_err(|error| format!("{way}: the answer cannot be read: {error}"))?;
    Ok(Remote { index, records })
}

/// Has the primary keep these gateways of a datacenter.
pub(super) async fn write(
    way: &str,
    token: &str,
    datacenter: &str,
    gateways: &[Gateway],
) -> Result<(), String> {
    let url = format!("http://{way}/v1/federation-state/{datacenter}");
    let body = serde_json::to_vec(gateways).map_err(|error| error.to_string())?;
    ask(Method::PUT, &url, token, body.into(), MORE).await?;
    Ok(())
}

async fn ask(
    method: Method,
    url: &str,
    token: &str,
    body: Bytes,
    limit: Duration,
) -> Result<(Option<u64>, Bytes), String> {
    let in_words = |error: &dyn std::fmt::Display| format!("{url}: {error}");
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = url.parse().map_err(|error| in_words(&error))?;
    let mut token = HeaderValue::from_str(token).map_err(|error| in_words(&error))?;
    token.set_sensitive(true);
    request.headers_mut().insert("x-consul-token", token);
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build::<_, Full<Bytes>>(connector);
    let asked = async {
        let answer = client.request(request).await.map_err(|error| {
            let cause = error.source().map(ToString::to_string);
            in_words(&cause.unwrap_or_else(|| error.to_string()))
        })?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, LONGEST).collect().await;
        let body = body.map_err(|error| in_words(&error))?.to_bytes();
        if head.status != StatusCode::OK {
            let text = String::from_utf8_lossy(&body);
            let text: String = text.trim().chars().take(SHOWN).collect();
            return Err(in_words(&format!("{}: {text}", head.status)));
        }
        let index = head.headers.get("x-consul-index");
        let index = index.and_then(|index| index.to_str().ok()?.parse().ok());
        Ok((index, body))
    };
    let answer = timeout(limit, asked).await;
    answer.unwrap_or_else(|_| Err(in_words(&format!("no answer within {limit:?}"))))
}
