//! Admission of clients, and the headers of every answer.

use hyper::{
    Method, Request, StatusCode,
    header::{
        ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY,
        X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
    },
};
use shunt_http::{Answer, text, with_header};

use crate::ui::{hosts::Hosts, sign_in::SignIn};

/// Nothing but what this agent serves, and nothing in line.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 8] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=()",
    ),
];

/// The door of the page.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) hosts: Hosts,
    /// `None`: the data are for all who reach the listener.
    pub(super) sign_in: Option<SignIn>,
}

impl Door {
    /// The refusal of a request that asks under a foreign name or wants to change something; `None` for any
    /// other.
    pub(super) fn refusal<B>(&self, request: &Request<B>) -> Option<Answer> {
        if !self.hosts.accept(request.uri(), request.headers()) {
            return Some(text(
                StatusCode::MISDIRECTED_REQUEST,
                "this agent is not asked under that name: --ui-host adds one\n",
            ));
        }
        let is_session = matches!(request.uri().path(), "/login" | "/logout");
        let is_session = is_session && request.method() == Method::POST;
        if !is_session && !matches!(*request.method(), Method::GET | Method::HEAD) {
            let refusal = text(
                StatusCode::METHOD_NOT_ALLOWED,
                "nothing is changed here: GET and HEAD alone are answered\n",
            );
            let allowed = HeaderValue::from_static("GET, HEAD");
            return Some(with_header(refusal, ALLOW, allowed));
        }
        None
    }
}

/// The answer, as it goes out.
pub(super) fn guarded(mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door() -> Door {
        Door {
            hosts: Hosts::new(None, &[]),
            sign_in: None,
        }
    }

    fn status(method: &str, path: &str, host: &str) -> Option<u16> {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("host", host).body(()).unwrap();
        let refusal = door().refusal(&request);
        refusal.map(|refusal| refusal.status().as_u16())
    }

    #[test]
    fn what_would_change_something_is_refused() {
        for (method, path, expected) in [
            ("GET", "/", None),
            ("HEAD", "/api/live", None),
            ("POST", "/login", None),
            ("POST", "/logout", None),
            ("POST", "/api/live", Some(405)),
            ("PUT", "/login", Some(405)),
            ("DELETE", "/", Some(405)),
            ("OPTIONS", "/api/live", Some(405)),
            ("CONNECT", "/", Some(405)),
        ] {
            assert_eq!(
                status(method, path, "localhost"),
                expected,
                "{method} {path}"
            );
        }
    }

    #[test]
    fn who_asks_under_a_foreign_name_is_refused_whatever_they_ask() {
        for path in ["/", "/app.js", "/api/live", "/login"] {
            assert_eq!(status("GET", path, "evil.example"), Some(421), "{path}");
        }
    }

    #[test]
    fn every_answer_forbids_what_is_not_ours() {
        let answer = guarded(text(StatusCode::OK, ""));
        let policy = answer.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"));
        assert!(!policy.contains("unsafe"));
        assert_eq!(answer.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(answer.headers()[REFERRER_POLICY], "no-referrer");
        let mut names = answer.headers().keys();
        assert!(!names.any(|name| name.as_str().starts_with("access-control-")));
    }
}
