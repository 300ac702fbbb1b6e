//! The conditions of a workload, written by the controller that leads at that moment.

use kube::{
    Client,
    api::{Patch, PatchParams},
    core::Request,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    controllers::{
        election::Ballot,
        workloads::write_error::{ANSWER, WriteError, lead, slow},
    },
    objects::external_workload::ExternalWorkload,
};

/// Name of the writer of conditions.
const FIELD_MANAGER: &str = "shunt.io/controller";

/// Has the status of a workload have these conditions, if it is still as it was read.
pub(super) async fn write_status(
    client: &Client,
    ballot: &Ballot,
    workload: &ExternalWorkload,
    conditions: Vec<Value>,
) -> Result<(), WriteError> {
    lead(ballot).await?;
    let key = &workload.key;
    let path = format!(
        "/apis/{}/namespaces/{}/externalworkloads",
        key.group.api_version(),
        key.namespace
    );
    let patch = Patch::Merge(json!({
        // Of any other version the server refuses it (409).
        "metadata": { "resourceVersion": workload.version },
        "status": { "conditions": conditions },
    }));
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let request = Request::new(path).patch_subresource("status", &key.name, &params, &patch);
    let request = request.map_err(kube::Error::BuildRequest)?;
    match timeout(ANSWER, client.request_text(request)).await {
        // It is gone.
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(()),
        Ok(written) => {
            written?;
            Ok(())
        }
        Err(_) => Err(slow()),
    }
}
