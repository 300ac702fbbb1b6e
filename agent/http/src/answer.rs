//! Answers.

use http_body_util::Full;
use hyper::{
    Response, StatusCode,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS},
};

/// An answer, all of it.
pub type Answer = Response<Full<Bytes>>;

/// An answer with a body of this type.
pub fn answer(status: StatusCode, content_type: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // No browser is to take it for anything else.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// An answer in words.
pub fn text(status: StatusCode, body: impl Into<String>) -> Answer {
    answer(status, "text/plain; charset=utf-8", body.into())
}

/// There is nothing at this path.
pub fn not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// 200 if all is well, and else 503.
pub const fn verdict(is_well: bool) -> StatusCode {
    if is_well {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

/// The answer with one header more.
pub fn with_header(mut answer: Answer, name: HeaderName, value: HeaderValue) -> Answer {
    answer.headers_mut().insert(name, value);
    answer
}
