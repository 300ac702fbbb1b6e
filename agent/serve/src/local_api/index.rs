//! Reads that wait for a number: `?index=&wait=`, as Consul's do.

use std::time::Duration;

use hyper::{
    StatusCode,
    header::{HeaderName, HeaderValue},
};
use shunt_http::{Answer, text, with_header};

use crate::local_api::{request::Parameters, service::asked_wait};

/// Header with the index.
const INDEX: HeaderName = HeaderName::from_static("x-consul-index");

/// The index that a client has seen, and how long it waits for another one.
///
/// # Errors
///
/// The answer, if either makes no sense.
pub(super) fn index_and_wait(asked: &Parameters) -> Result<(u64, Duration), Box<Answer>> {
    let bad = |reason| Box::new(text(StatusCode::BAD_REQUEST, reason));
    let wait = asked_wait(asked).ok_or_else(|| bad("Invalid wait time"))?;
    let index = asked.get("index").filter(|index| !index.is_empty());
    let index = index.map_or(Ok(0), str::parse);
    Ok((index.map_err(|_| bad("Invalid index"))?, wait))
}

/// An index is never 0: a client that has one would not wait with it.
pub(super) fn with_index(answer: Answer, index: u64) -> Answer {
    with_header(answer, INDEX, HeaderValue::from(index.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_a_number() {
        for (query, expected) in [
            ("", Some((0, 300))),
            ("index=7&wait=2s", Some((7, 2))),
            ("index=", Some((0, 300))),
            ("index=-1", None),
            ("index=abc", None),
            ("index=1&wait=2", None),
        ] {
            let read = index_and_wait(&Parameters::of(Some(query))).ok();
            // Answers are spread over a sixteenth of the wait.
            let read = read.map(|(index, wait)| (index, wait.as_secs_f64()));
            match (read, expected) {
                (None, None) => {}
                (Some((index, wait)), Some((number, seconds))) => {
                    let least = f64::from(seconds);
                    assert_eq!(index, number, "{query}");
                    assert!(
                        (least..=least * 17.0 / 16.0).contains(&wait),
                        "{query}: {wait}"
                    );
                }
                other => panic!("{query}: {other:?}"),
            }
        }
    }
}
