//! A request is answered.

use std::{collections::BTreeMap, error::Error as _};

use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::Bytes,
    header::{ACCEPT, HeaderName, HeaderValue, USER_AGENT},
};
use hyper_util::{
    client::legacy::{Client, Error, connect::HttpConnector},
    rt::TokioExecutor,
};

use crate::local::{checks::answer::Answer, state::status::Status};

/// Number of bytes that are read of an answer.
const READ: usize = 4096;

/// Value that accepts anything, as Consul's checks send it.
const ACCEPTED: HeaderValue = HeaderValue::from_static("text/plain, text/*, */*");

/// Name of the agent in requests.
pub(super) const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("shunt/", env!("CARGO_PKG_VERSION")));

/// Sends a request, over a connection of its own, and reads the beginning of the answer.
pub(super) async fn ask(
    url: &str,
    method: &str,
    headers: &BTreeMap<String, Vec<String>>,
    body: &str,
) -> Answer {
    let request = match request(url, method, headers, body) {
        Ok(request) => request,
        Err(reason) => return Answer::critical(reason),
    };
    let client = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build::<_, Full<Bytes>>(HttpConnector::new());
    let method = request.method().clone();
    let answer = match client.request(request).await {
        Ok(answer) => answer,
        Err(error) => {
            let reason = reason(&error);
            return Answer::critical(format!("{method} {url}: {reason}"));
        }
    };
    let status = answer.status();
    // A text that is too long, or breaks off, is no worse sign for the service.
    let text = Limited::new(answer.into_body(), READ).collect().await;
    let text = text.map(Collected::to_bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    Answer {
        status: verdict(status),
        output: format!("HTTP {method} {url}: {status} Output: {text}"),
    }
}

/// Returns the reason that a request was not answered. The error itself shows no more than that it is one.
pub(super) fn reason(error: &Error) -> String {
    let source = error.source();
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

/// Returns the verdict on a status, as Consul has it.
fn verdict(status: StatusCode) -> Status {
    match status {
        status if status.is_success() => Status::Passing,
        StatusCode::TOO_MANY_REQUESTS => Status::Warning,
        _ => Status::Critical,
    }
}

fn request(
    url: &str,
    method: &str,
    headers: &BTreeMap<String, Vec<String>>,
    body: &str,
) -> Result<Request<Full<Bytes>>, String> {
    let method = if method.is_empty() { "GET" } else { method };
    let method = Method::from_bytes(method.as_bytes());
    let method = method.map_err(|error| format!("Method: {error}"))?;
    let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = url.parse().map_err(|error| format!("{url}: {error}"))?;
    request.headers_mut().insert(ACCEPT, ACCEPTED);
    request.headers_mut().insert(USER_AGENT, AGENT);
    for (name, values) in headers {
        let wrong = |error: &dyn std::fmt::Display| format!("Header {name}: {error}");
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| wrong(&error))?;
        request.headers_mut().remove(&name);
        for value in values {
            let value = HeaderValue::from_str(value).map_err(|error| wrong(&error))?;
            request.headers_mut().append(&name, value);
        }
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answers_status_is_the_verdict() {
        for (code, status) in [
            (200, Status::Passing),
            (204, Status::Passing),
            (299, Status::Passing),
            (301, Status::Critical),
            (404, Status::Critical),
            (429, Status::Warning),
            (500, Status::Critical),
        ] {
            assert_eq!(
                verdict(StatusCode::from_u16(code).unwrap()),
                status,
                "{code}"
            );
        }
    }

    #[test]
    fn a_request_is_as_it_was_asked_for() {
        let headers = BTreeMap::from([("host".to_owned(), vec!["example".to_owned()])]);
        let made = request("http://127.0.0.1:1/health", "post", &headers, "x");
        assert!(made.is_ok_and(|it| it.headers()["host"] == "example"));
        let made = request("http://127.0.0.1:1/health", "", &BTreeMap::new(), "").unwrap();
        assert_eq!(made.method(), Method::GET);
        let headers = BTreeMap::from([("a b".to_owned(), vec![])]);
        assert!(request("http://127.0.0.1:1/", "", &headers, "").is_err());
        assert!(request("http://[", "", &BTreeMap::new(), "").is_err());
    }
}
