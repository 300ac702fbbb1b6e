//! Content of a request.

use std::{collections::BTreeMap, time::Duration};

use form_urlencoded::parse;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::{StatusCode, body::Incoming};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use shunt_http::{Answer, text};
use tokio::time::timeout;

/// Maximum length of a body, in bytes.
const LENGTH: usize = 1 << 20;

/// Maximum time for a body.
const PATIENCE: Duration = Duration::from_secs(10);

/// The parameters of a request. Of several with a name the first one counts, where one is wanted.
#[derive(Debug)]
pub(super) struct Parameters(BTreeMap<String, Vec<String>>);

impl Parameters {
    /// Reads the parameters of a query.
    pub(super) fn of(query: Option<&str>) -> Self {
        let mut all = BTreeMap::<String, Vec<String>>::new();
        for (name, value) in parse(query.unwrap_or_default().as_bytes()) {
            let values = all.entry(name.into_owned()).or_default();
            values.push(value.into_owned());
        }
        Self(all)
    }

    /// The value of one; empty if it has none.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).first().map(String::as_str)
    }

    /// The values of all of a name.
    pub(super) fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns whether one is there that is no `false`.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != "false")
    }
}

/// Returns the decoded text of a part of a path.
pub(super) fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// The JSON of a body.
///
/// # Errors
///
/// The answer, if it is not all there in time, too long, or no JSON.
pub(super) async fn json(body: Incoming) -> Result<Value, Box<Answer>> {
    let refused = |status, reason: &str| Box::new(text(status, reason));
    let collected = timeout(PATIENCE, Limited::new(body, LENGTH).collect()).await;
    let body = match collected {
        Err(_) => {
            return Err(refused(
                StatusCode::REQUEST_TIMEOUT,
                "the body takes too long",
            ));
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let reason = format!("the body has more than {LENGTH} bytes");
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, &reason));
        }
        Ok(Err(error)) => {
            let reason = format!("Request decode failed: {error}");
            return Err(refused(StatusCode::BAD_REQUEST, &reason));
        }
        Ok(Ok(body)) => body.to_bytes(),
    };
    serde_json::from_slice(&body).map_err(|error| {
        let reason = format!("Request decode failed: {error}");
        refused(StatusCode::BAD_REQUEST, &reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_paths_are_decoded() {
        let parameters =
            Parameters::of(Some("enable=true&reason=because%20so+far&pretty&enable=x"));
        assert_eq!(parameters.get("enable"), Some("true"));
        assert_eq!(parameters.get("reason"), Some("because so far"));
        assert_eq!(parameters.all("enable"), ["true", "x"]);
        assert!(parameters.is_on("pretty"));
        assert_eq!(parameters.get("wait"), None);
        assert!(!Parameters::of(Some("a=false")).is_on("a"));
        assert_eq!(decoded("a%2Fb%20%C3%BC"), "a/b \u{fc}");
    }
}
