//! A service, read at once or as soon as it is another.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use hyper::{
    StatusCode,
    header::{HeaderName, HeaderValue},
};
use shunt_catalog::{NoPlace, Registrar};
use shunt_http::{Answer, text, with_header};
use shunt_runtime::GoDuration;

use crate::local_api::{
    request::Parameters,
    shown::{ShownService, json},
};

/// Waiting time of a client that gives none.
const WAIT: Duration = Duration::from_mins(5);

/// Maximum waiting time.
const LONGEST: Duration = Duration::from_mins(10);

/// Answers come so much later than they were asked for at most, as a part of the wait: clients that began
/// to wait together do not come back together.
const SPREAD: u32 = 16;

/// Header with the hash, besides in the body.
const HASH: HeaderName = HeaderName::from_static("x-consul-contenthash");

/// Answers for a service.
pub(super) async fn service(registrar: &Registrar, id: &str, asked: &Parameters) -> Answer {
    let Some(wait) = asked_wait(asked) else {
        return text(StatusCode::BAD_REQUEST, "Invalid wait time");
    };
    let hash = asked.get("hash").filter(|hash| !hash.is_empty());
    match registrar.service(id, hash, wait).await {
        Ok(Some(registered)) => {
            let answer = json(&ShownService::alone(&registered), asked);
            // Hexadecimal digits are what a header may have.
            let hash = HeaderValue::from_str(&registered.content_hash());
            match hash {
                Ok(hash) => with_header(answer, HASH, hash),
                Err(_) => answer,
            }
        }
        Ok(None) => {
            let reason = format!("unknown service ID: {id}");
            text(StatusCode::NOT_FOUND, reason)
        }
        Err(NoPlace) => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many wait for services to change: try again later",
        ),
    }
}

/// Returns the time for which a client is to wait; `None`: its parameter is no time.
pub(super) fn asked_wait(asked: &Parameters) -> Option<Duration> {
    let asked = match asked.get("wait") {
        None => WAIT,
        Some(text) => wait(text)?,
    };
    Some(later(asked))
}

/// Reads the time that a client wants to wait: Go's form, with its unit.
fn wait(text: &str) -> Option<Duration> {
    let wait = text.parse::<GoDuration>().ok()?.duration()?;
    Some(match wait {
        // As if it were not given.
        Duration::ZERO => WAIT,
        wait => wait.min(LONGEST),
    })
}

/// So much, and up to a part of it more.
fn later(wait: Duration) -> Duration {
    let random = RandomState::new().hash_one(());
    wait + (wait / SPREAD).mul_f64(random as f64 / u64::MAX as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_has_a_unit_and_an_end() {
        for (text, seconds) in [
            ("2s", Some(2)),
            ("1m30s", Some(90)),
            ("11m", Some(600)),
            ("24h", Some(600)),
            ("0s", Some(300)),
            ("2", None),
            ("abc", None),
            ("-1s", None),
            ("", None),
        ] {
            assert_eq!(wait(text), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn an_answer_comes_up_to_a_sixteenth_later() {
        let wait = Duration::from_millis(1600);
        let waits: Vec<_> = (0..100).map(|_| later(wait)).collect();
        let longest = wait + wait / 16;
        assert!(waits.iter().all(|later| (wait..=longest).contains(later)));
        assert!(waits.iter().any(|later| *later != waits[0]), "each another");
    }
}
