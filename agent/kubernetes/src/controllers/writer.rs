//! One route's status, read and written.

use std::time::{Duration, SystemTime};

use kube::{
    Client,
    api::{GetParams, Patch, PatchParams},
    core::Request,
};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::timeout;

use crate::{
    controllers::{
        election::Ballot,
        observed::Report,
        parents::{CONTROLLER, merged},
    },
    routes::book::RouteKind,
};

/// Maximum time of one answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Outcome for a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Done {
    /// It was another one, and is right since this version of the route.
    Written(Box<str>),
    /// It was right already in this version of the route.
    Unchanged(Box<str>),
    /// The route is gone, or another one than was reported on: the watch reports that.
    Outdated,
    /// Another controller leads: nothing was written.
    NotLeading,
}

/// Why a status could not be read or written.
#[derive(Debug, Error)]
pub(super) enum WriteError {
    /// An answer that is an error, or none.
    #[error(transparent)]
    Request(#[from] kube::Error),
    /// The server does not answer which one leads. That is nothing that the route could be blamed for.
    #[error("the Lease: {0}")]
    Lease(#[source] kube::Error),
    /// No answer.
    #[error("no answer within {ANSWER:?}")]
    Slow,
    /// The request cannot be written.
    #[error(transparent)]
    Ask(#[from] kube::core::request::Error),
}

impl WriteError {
    /// The answer's status, if there is an answer.
    fn code(&self) -> Option<u16> {
        match self {
            Self::Request(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    /// Returns whether another writer was there since the status was read.
    pub(super) fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// Returns whether the same would be refused again: it is wrong, or not allowed.
    pub(super) fn is_final(&self) -> bool {
        matches!(self.code(), Some(400 | 403 | 413 | 415 | 422)) || matches!(self, Self::Ask(_))
    }

    /// Returns the time for which the server asks to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let (Self::Request(kube::Error::Api(status)) | Self::Lease(kube::Error::Api(status))) =
            self
        else {
            return None;
        };
        let seconds = status.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }
}

/// Has the status of a route show what is reported, if it does not yet. Only the one that leads at that
/// moment writes, and only if the route is still as it was read.
///
/// # Errors
///
/// The server does not answer, or refuses.
pub(super) async fn write(
    client: &Client,
    ballot: &Ballot,
    report: &Report,
) -> Result<Done, WriteError> {
    let routes = Request::new(path(report));
    let name = &*report.id.name;
    let route = match ask(client, routes.get(name, &GetParams::default())?).await {
        Err(error) if error.code() == Some(404) => return Ok(Done::Outdated),
        found => found?,
    };
    let metadata = &route["metadata"];
    if metadata["uid"].as_str().unwrap_or_default() != &*report.uid
        || metadata["generation"].as_i64().unwrap_or(0) != report.generation
    {
        return Ok(Done::Outdated);
    }
    let current = route["status"]["parents"].as_array();
    let current = current.map_or(&[][..], Vec::as_slice);
    let Some(parents) = merged(current, report, SystemTime::now()) else {
        return Ok(Done::Unchanged(version(&route)));
    };
    let is_won = timeout(ANSWER, ballot.is_won()).await;
    let is_won = is_won.map_err(|_| WriteError::Slow)?;
    if !is_won.map_err(WriteError::Lease)? {
        return Ok(Done::NotLeading);
    }
    let patch = Patch::Merge(json!({
        // Of any other version the server refuses it (409).
        "metadata": { "resourceVersion": metadata["resourceVersion"] },
        "status": { "parents": parents },
    }));
    let params = PatchParams {
        field_manager: Some(CONTROLLER.to_owned()),
        ..PatchParams::default()
    };
    let request = routes.patch_subresource("status", name, &params, &patch)?;
    match ask(client, request).await {
        Err(error) if error.code() == Some(404) => Ok(Done::Outdated),
        written => written.map(|route| Done::Written(version(&route))),
    }
}

/// Returns the version of a route.
fn version(route: &Value) -> Box<str> {
    let version = &route["metadata"]["resourceVersion"];
    version.as_str().unwrap_or_default().into()
}

async fn ask(client: &Client, request: hyper::Request<Vec<u8>>) -> Result<Value, WriteError> {
    let answer = timeout(ANSWER, client.request::<Value>(request)).await;
    Ok(answer.map_err(|_| WriteError::Slow)??)
}

/// Returns the API's path of the routes of its namespace.
fn path(report: &Report) -> String {
    let plural = match report.kind {
        RouteKind::Tcp => "tcproutes",
        RouteKind::Udp => "udproutes",
    };
    let (version, namespace) = (&report.api_version, &report.id.namespace);
    format!("/apis/{version}/namespaces/{namespace}/{plural}")
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_is_forbidden_of_the_lease_is_not_final_for_a_route() {
        let forbidden = || {
            let mut status = Status::failure("forbidden", "Forbidden");
            status.code = 403;
            kube::Error::Api(Box::new(status))
        };
        assert!(WriteError::Request(forbidden()).is_final());
        assert!(!WriteError::Lease(forbidden()).is_final());
    }
}
