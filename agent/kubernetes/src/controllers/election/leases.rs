//! The Lease at the server: read, and written by those who have seen its last version.

use k8s_openapi::{
    api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::ObjectMeta as Metadata,
};
use kube::{
    Api, Client, Error,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::controllers::{
    election::candidate::{Bid, Record},
    parents::CONTROLLER,
};

/// The Lease of this name.
#[derive(Clone)]
pub(super) struct Leases {
    api: Api<Lease>,
    name: String,
}

impl Leases {
    pub(super) fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
        }
    }

    /// Returns the Lease, if there is one.
    ///
    /// # Errors
    ///
    /// The server does not answer with it.
    pub(super) async fn get(&self) -> Result<Option<Record>, Error> {
        let lease = self.api.get_opt(&self.name).await?;
        lease.map(record).transpose()
    }

    /// Writes the Lease, and returns it as it is since; `None`: another write came first.
    ///
    /// # Errors
    ///
    /// The server does not answer, or refuses.
    pub(super) async fn write(&self, bid: &Bid) -> Result<Option<Record>, Error> {
        let field_manager = Some(CONTROLLER.to_owned());
        let Bid { version, spec } = bid;
        let (written, beaten): (_, &[u16]) = if let Some(version) = version {
            let patch = Patch::Merge(json!({
                "metadata": { "resourceVersion": version }, "spec": spec,
            }));
            let params = PatchParams {
                field_manager,
                ..PatchParams::default()
            };
            (
                self.api.patch(&self.name, &params, &patch).await,
                &[404, 409],
            )
        } else {
            let lease = Lease {
                metadata: Metadata {
                    name: Some(self.name.clone()),
                    ..Metadata::default()
                },
                spec: Some(spec.clone()),
            };
            let params = PostParams {
                field_manager,
                ..PostParams::default()
            };
            (self.api.create(&params, &lease).await, &[409])
        };
        match written {
            Err(Error::Api(status)) if beaten.contains(&status.code) => Ok(None),
            written => record(written?).map(Some),
        }
    }
}

/// Returns the Lease with its version, without which a write could follow any other one.
fn record(lease: Lease) -> Result<Record, Error> {
    let version = lease.metadata.resource_version;
    let version = version.filter(|version| !version.is_empty());
    Ok(Record {
        version: version
            .ok_or_else(|| Error::Service("the Lease has no resourceVersion".into()))?,
        spec: lease.spec.unwrap_or_default(),
    })
}
