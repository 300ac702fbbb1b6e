//! Kubernetes Events (`events.k8s.io/v1`) with the notices for users.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use shunt_runtime::{Limit, Reports, Told};
use tokio::{sync::mpsc::Receiver, time::timeout};
use tracing::{debug, warn};

use crate::notices::{
    notice::{Notice, Subject},
    publisher::{Publisher, Said},
};

/// The controller that Events are from.
const CONTROLLER: &str = "shunt";

/// Longest time for the server's answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes an Event of each notice, until there are none any more. Nothing is
/// tried twice.
pub(crate) async fn record(
    client: Client,
    node: String,
    mut notices: Receiver<Notice>,
    reports: Arc<Reports>,
) {
    let mut publisher = Publisher::new(client, CONTROLLER, &node);
    let mut limit = Limit::new(Instant::now());
    let mut is_failing = false;
    while let Some(notice) = notices.recv().await {
        if !limit.take(Instant::now()) {
            reports.meters().told(Told::Dropped);
            debug!("an Event is dropped, as there were many lately: {notice:?}");
            continue;
        }
        let published = timeout(PATIENCE, publisher.publish(said(notice), Instant::now())).await;
        let trouble = match published {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {PATIENCE:?}")),
        };
        let told = if trouble.is_none() {
            Told::Published
        } else {
            Told::Failed
        };
        reports.meters().told(told);
        match trouble {
            Some(trouble) if !is_failing => {
                warn!("Events cannot be made, so users are not told: {trouble}");
                is_failing = true;
            }
            Some(trouble) => debug!("an Event cannot be made: {trouble}"),
            None => is_failing = false,
        }
    }
}

fn said(notice: Notice) -> Said {
    let Notice {
        reason,
        regarding,
        related,
        note,
    } = notice;
    Said {
        reason: reason.name(),
        action: reason.action(),
        regarding: reference(regarding),
        related: related.map(reference),
        note,
    }
}

fn reference(subject: Subject) -> ObjectReference {
    let Subject { id, uid } = subject;
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Service".to_owned()),
        namespace: Some(id.namespace.to_string()),
        name: Some(id.name.to_string()),
        uid: (!uid.is_empty()).then(|| uid.into()),
        ..ObjectReference::default()
    }
}
