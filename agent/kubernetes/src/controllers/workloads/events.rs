//! Kubernetes Events about Services and workloads, of the leader alone.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use shunt_runtime::Limit;
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    time::timeout,
};
use tracing::debug;

use crate::{
    controllers::workloads::service::Service,
    notices::publisher::{Publisher, Said},
    objects::external_workload::ExternalWorkload,
};

/// Name of the controller that reports Events.
const CONTROLLER: &str = "shunt-controller";

/// Number of notices that may wait.
const AHEAD: usize = 64;

/// Maximum time of the server's answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest note in bytes, as the API takes it.
const LONGEST: usize = 1000;

/// Notice for a user.
#[derive(Debug)]
pub(super) struct Notice {
    reason: &'static str,
    note: String,
    regarding: ObjectReference,
}

impl Notice {
    pub(super) fn of_service(service: &Service, reason: &'static str, note: String) -> Self {
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Service".to_owned()),
            namespace: Some(service.id.namespace.to_string()),
            name: Some(service.id.name.to_string()),
            uid: Some(service.uid.to_string()),
            ..ObjectReference::default()
        };
        Self {
            reason,
            note,
            regarding,
        }
    }

    pub(super) fn of_workload(
        workload: &ExternalWorkload,
        reason: &'static str,
        note: String,
    ) -> Self {
        let key = &workload.key;
        let regarding = ObjectReference {
            api_version: Some(key.group.api_version().to_owned()),
            kind: Some("ExternalWorkload".to_owned()),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
            uid: Some(workload.uid.to_string()),
            ..ObjectReference::default()
        };
        Self {
            reason,
            note,
            regarding,
        }
    }
}

/// A channel for notices that no sender waits for: what there is no room for is dropped.
pub(super) fn channel() -> (Sender<Notice>, Receiver<Notice>) {
    mpsc::channel(AHEAD)
}

/// Makes an Event of each notice, a few at once.
pub(super) async fn record(client: Client, identity: String, mut notices: Receiver<Notice>) {
    let mut publisher = Publisher::new(client, CONTROLLER, &identity);
    let mut limit = Limit::new(Instant::now());
    while let Some(notice) = notices.recv().await {
        if !limit.take(Instant::now()) {
            debug!("an Event is dropped, as there were many lately: {notice:?}");
            continue;
        }
        let Notice {
            reason,
            mut note,
            regarding,
        } = notice;
        note.truncate(note.floor_char_boundary(LONGEST));
        let said = Said {
            reason,
            action: "Publish",
            regarding,
            related: None,
            note,
        };
        match timeout(PATIENCE, publisher.publish(said, Instant::now())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!("an Event cannot be made: {error}"),
            Err(_) => debug!("an Event cannot be made: no answer within {PATIENCE:?}"),
        }
    }
}
