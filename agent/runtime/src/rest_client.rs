//! Requests to an API server, measured as client-go does.

use std::time::Duration;

use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};

/// client-go's buckets of a request, in seconds.
const BUCKETS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// Two labels, and three.
pub(crate) type Two = [(&'static str, String); 2];
pub(crate) type Three = [(&'static str, String); 3];

/// Its meters, with client-go's names, labels and buckets.
#[derive(Debug)]
pub struct RestClient {
    /// Requests by status, method and server.
    pub requests: Family<Three, Counter>,
    /// Time until answers began, by method and server.
    pub duration: Family<Two, Histogram, fn() -> Histogram>,
}

impl Default for RestClient {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
        }
    }
}

impl RestClient {
    /// A request to `host` was answered with this status, or not at all; `took` is the time that this
    /// took, if it means anything.
    pub fn asked(&self, method: &str, host: &str, status: Option<u16>, took: Option<Duration>) {
        let code = status.map_or_else(|| "<error>".to_owned(), |status| status.to_string());
        let (method, host) = (method.to_owned(), host.to_owned());
        if let Some(took) = took {
            let labels = [("verb", method.clone()), ("host", host.clone())];
            self.duration
                .get_or_create(&labels)
                .observe(took.as_secs_f64());
        }
        let labels = [("code", code), ("method", method), ("host", host)];
        self.requests.get_or_create(&labels).inc();
    }
}
