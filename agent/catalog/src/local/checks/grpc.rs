//! The status of a server of gRPC: `grpc.health.v1.Health/Check`, in plain text.
//!
//! The two messages have a field each, so they are written and read here by hand
//! (<https://github.com/grpc/grpc/blob/master/doc/health-checking.md>).

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    HeaderMap, Method, Request, StatusCode, Uri,
    body::{Bytes, Incoming},
    header::{CONTENT_TYPE, HeaderName, HeaderValue, TE, USER_AGENT},
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

use crate::local::{
    checks::{
        answer::Answer,
        http::{AGENT, reason},
    },
    state::status::Status,
};

/// Number of bytes that are read of an answer. A message is five bytes, and one or two of content.
const READ: usize = 4096;

/// The method of the service that every server of gRPC may have.
const PATH: &str = "/grpc.health.v1.Health/Check";

/// Length of the head of a message, in bytes: whether it is compressed, and how long it is.
const HEAD: usize = 5;

/// Field 1 of a message, if that is a text.
const TEXT: u8 = 1 << 3 | 2;

/// The status of a service that serves.
const SERVING: u64 = 1;

/// Header with the outcome of a call.
const OUTCOME: HeaderName = HeaderName::from_static("grpc-status");

/// Header with the outcome in words.
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Asks the server at `target`, which is `host:port` or `host:port/service`, for its status or that of the service.
pub(super) async fn ask(target: &str) -> Answer {
    match status(target).await {
        Ok(SERVING) => Answer {
            status: Status::Passing,
            // In Consul's words, as the rest of what a client sees.
            output: format!("gRPC check {target}: success"),
        },
        Ok(status) => Answer::critical(format!(
            "gRPC check {target}: the service is {}",
            name(status)
        )),
        Err(error) => Answer::critical(format!("gRPC check {target}: {error}")),
    }
}

async fn status(target: &str) -> Result<u64, String> {
    let (address, service) = target.split_once('/').unwrap_or((target, ""));
    let uri = format!("http://{address}{PATH}");
    let uri: Uri = uri.parse().map_err(|error| format!("{error}"))?;
    let mut request = Request::new(Full::new(Bytes::from(asking(service))));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    let grpc = HeaderValue::from_static("application/grpc");
    headers.insert(CONTENT_TYPE, grpc);
    headers.insert(TE, HeaderValue::from_static("trailers"));
    headers.insert(USER_AGENT, AGENT);
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .pool_max_idle_per_host(0)
        .build::<_, Full<Bytes>>(HttpConnector::new());
    let answer = client.request(request).await;
    let (head, body) = answer.map_err(|error| reason(&error))?.into_parts();
    if head.status != StatusCode::OK {
        return Err(format!("the server answers {}", head.status));
    }
    outcome(&head.headers)?;
    said(body).await
}

/// Returns the status in the body, if the trailers confirm that it is one.
async fn said(body: Incoming) -> Result<u64, String> {
    let collected = Limited::new(body, READ).collect().await;
    let collected = collected.map_err(|error| format!("the answer is not whole: {error}"))?;
    let none = HeaderMap::new();
    outcome(collected.trailers().unwrap_or(&none))?;
    serving(&collected.to_bytes()).ok_or_else(|| "the answer makes no sense".to_owned())
}

/// Fails if the call has failed. Without a word of it there is more to come.
fn outcome(headers: &HeaderMap) -> Result<(), String> {
    let text = |name: HeaderName| {
        let value = headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    match text(OUTCOME).as_deref() {
        None | Some("0") => Ok(()),
        Some(code) => {
            let message = text(MESSAGE).unwrap_or_default();
            Err(format!("the call has failed with code {code}: {message}"))
        }
    }
}

/// A `HealthCheckRequest`, as it is sent.
fn asking(service: &str) -> Vec<u8> {
    let mut content = Vec::new();
    if !service.is_empty() {
        content.push(TEXT);
        let mut length = service.len();
        while length >= 0x80 {
            content.push(length as u8 | 0x80);
            length >>= 7;
        }
        content.push(length as u8);
        content.extend_from_slice(service.as_bytes());
    }
    let mut message = vec![0];
    // A target is much shorter than a body may be.
    message.extend_from_slice(&(content.len() as u32).to_be_bytes());
    message.extend(content);
    message
}

/// The status in a `HealthCheckResponse`; `None`: it is none.
fn serving(message: &[u8]) -> Option<u64> {
    let (head, mut content) = message.split_at_checked(HEAD)?;
    let [0, length @ ..] = head else {
        return None;
    };
    let length: [u8; 4] = length.try_into().ok()?;
    if u32::from_be_bytes(length) as usize != content.len() {
        return None;
    }
    // What is not there is 0.
    let mut status = 0;
    while !content.is_empty() {
        let tag = number(&mut content)?;
        // Of another field there is nothing to know but its end.
        match (tag >> 3, tag & 7) {
            (1, 0) => status = number(&mut content)?,
            (_, 0) => drop(number(&mut content)?),
            (_, 2) => {
                let length = usize::try_from(number(&mut content)?).ok()?;
                content = content.get(length..)?;
            }
            _ => return None,
        }
    }
    Some(status)
}

/// Takes a number of variable length.
fn number(content: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..10 {
        let (byte, rest) = content.split_first()?;
        *content = rest;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Returns the name of a status.
const fn name(status: u64) -> &'static str {
    match status {
        2 => "NOT_SERVING",
        3 => "SERVICE_UNKNOWN",
        _ => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_service() {
        assert_eq!(asking(""), [0, 0, 0, 0, 0]);
        assert_eq!(asking("web"), *b"\0\0\0\0\x05\x0a\x03web");
        let long = asking(&"x".repeat(300));
        assert_eq!(long[..8], [0, 0, 0, 1, 0x2f, 0x0a, 0xac, 0x02]);
    }

    #[test]
    fn an_answer_is_read_whatever_else_is_in_it() {
        for (message, status) in [
            (&b"\0\0\0\0\0"[..], Some(0)),
            (b"\0\0\0\0\x02\x08\x01", Some(1)),
            (b"\0\0\0\0\x03\x08\xac\x02", Some(300)),
            (b"\0\0\0\0\x06\x12\x02ab\x08\x02", Some(2)),
            (b"\0\0\0\0\x04\x18\x07\x08\x01", Some(1)),
            // Compressed, of another length, cut off, longer than any number.
            (b"\x01\0\0\0\x02\x08\x01", None),
            (b"\0\0\0\0\x03\x08\x01", None),
            (b"\0\0\0\0\x01\x08", None),
            (b"\0\0\0\0\x03\x12\x7fa", None),
            (
                b"\0\0\0\0\x0c\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                None,
            ),
            (b"\0\0", None),
            (b"", None),
        ] {
            assert_eq!(serving(message), status, "{message:?}");
        }
    }

    #[test]
    fn a_call_that_failed_is_named() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs.iter();
            let pairs = pairs.map(|&(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            });
            pairs.collect::<HeaderMap>()
        };
        assert_eq!(outcome(&headers(&[])), Ok(()));
        assert_eq!(outcome(&headers(&[("grpc-status", "0")])), Ok(()));
        let failed = headers(&[("grpc-status", "12"), ("grpc-message", "no such service")]);
        let said = outcome(&failed).unwrap_err();
        assert!(
            said.contains("12") && said.contains("no such service"),
            "{said}"
        );
    }
}
