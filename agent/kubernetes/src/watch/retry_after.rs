//! Servers that ask to be left alone for a while.
//!
//! A server, or a balancer before it, asks by the header `Retry-After` (RFC 9110 section 10.2.3), and need
//! not have a Status with a field for it in the answer. kube reads the field alone.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::SystemTime,
};

use http_body_util::{BodyExt as _, Collected, Either, Full, Limited};
use hyper::{
    Request, Response, StatusCode,
    body::{Body, Bytes},
    header::{CONTENT_LENGTH, RETRY_AFTER},
};
use k8s_openapi::jiff::fmt::rfc2822::DateTimeParser;
use serde_json::{Value, json};
use tower::{BoxError, Service};

/// The longest answer that is read, in bytes.
const LONGEST: usize = 64 * 1024;

/// The longest text of an answer that is shown, in bytes.
const SHOWN: usize = 256;

/// A client's inner service, whose answers have in their Status the value of their header.
#[derive(Debug, Clone)]
pub(super) struct RetryAfter<S>(S);

impl<S> RetryAfter<S> {
    pub(super) const fn new(inner: S) -> Self {
        Self(inner)
    }
}

impl<S, A, B> Service<Request<A>> for RetryAfter<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Either<B, Full<Bytes>>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            let Some(seconds) = wish(&answer, SystemTime::now()) else {
                return Ok(answer.map(Either::Left));
            };
            let (mut parts, body) = answer.into_parts();
            // An answer that breaks off still has its header.
            let text = Limited::new(body, LONGEST).collect().await;
            let text = text.map_or_else(|_| Bytes::new(), Collected::to_bytes);
            let status = with_wish(parts.status, &text, seconds).to_string();
            parts.headers.remove(CONTENT_LENGTH);
            let body = Either::Right(Full::new(status.into()));
            Ok(Response::from_parts(parts, body))
        })
    }
}

/// The seconds for which an answer that is an error asks to be left alone: a number, or a time.
fn wish<B>(answer: &Response<B>, now: SystemTime) -> Option<u32> {
    let is_error = answer.status().is_client_error() || answer.status().is_server_error();
    let value = answer.headers().get(RETRY_AFTER).filter(|_| is_error)?;
    let value = value.to_str().ok()?.trim();
    value.parse().ok().or_else(|| {
        let until = DateTimeParser::new().parse_timestamp(value).ok()?;
        let left = SystemTime::from(until).duration_since(now).ok()?;
        u32::try_from(left.as_secs().saturating_add(1)).ok()
    })
}

/// The Status of an answer, which asks for at least so many seconds.
fn with_wish(code: StatusCode, text: &[u8], seconds: u32) -> Value {
    let status = serde_json::from_slice::<Value>(text).ok();
    let status = status.filter(|status| status["kind"] == "Status");
    let mut status = status.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(text);
        let text = text.trim();
        json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(),
            "message": &text[..text.floor_char_boundary(SHOWN)],
            "reason": code.canonical_reason().unwrap_or_default(),
        })
    });
    let said = status["details"]["retryAfterSeconds"].as_u64();
    if !status["details"].is_object() {
        status["details"] = json!({});
    }
    status["details"]["retryAfterSeconds"] = said.unwrap_or(0).max(seconds.into()).into();
    status
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_header_is_a_number_of_seconds_or_a_time() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_770);
        for (status, value, expected) in [
            (429, "7", Some(7)),
            (503, " 7 ", Some(7)),
            (429, "Sun, 06 Nov 1994 08:49:37 GMT", Some(8)),
            (429, "Sun, 06 Nov 1994 08:49:00 GMT", None),
            (429, "soon", None),
            (429, "-1", None),
            (200, "7", None),
            (301, "7", None),
        ] {
            let answer = Response::builder()
                .status(status)
                .header(RETRY_AFTER, value)
                .body(())
                .unwrap();
            assert_eq!(wish(&answer, now), expected, "{status} {value}");
        }
    }

    #[test]
    fn the_longer_of_two_wishes_counts_and_a_plain_text_becomes_a_status() {
        let status = |text: &str| with_wish(StatusCode::TOO_MANY_REQUESTS, text.as_bytes(), 5);
        for (text, message, seconds) in [
            (
                "Too many requests, please try again later.\n",
                "Too many requests, please try again later.",
                5,
            ),
            ("", "", 5),
            (r#"{"kind":"Status","message":"m"}"#, "m", 5),
            (r#"{"kind":"Status","message":"m","details":null}"#, "m", 5),
            (
                r#"{"kind":"Status","message":"m","details":{"retryAfterSeconds":9,"kind":"k"}}"#,
                "m",
                9,
            ),
        ] {
            let found = status(text);
            assert_eq!(found["message"], message, "{text}");
            assert_eq!(found["details"]["retryAfterSeconds"], seconds, "{text}");
            serde_json::from_value::<kube::core::Status>(found).unwrap();
        }
    }
}
