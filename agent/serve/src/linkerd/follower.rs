//! Following of destinations, from the first Resync on.

use std::{future::ready, sync::Arc};

use futures_util::future::{BoxFuture, FutureExt as _};
use shunt_runtime::{Following, Inspector};
use tonic::Status;

use crate::{
    grpc::status_code::unreadable,
    linkerd::authority::{Destination, InvalidAuthority},
};

/// Following of a destination, or why there is none.
pub(super) type Begun = Result<Following, Status>;

/// Follows destinations of a cluster.
#[derive(Clone)]
pub(super) struct Follower {
    inspector: Inspector,
    cluster_domain: Arc<str>,
}

impl Follower {
    pub(super) const fn new(inspector: Inspector, cluster_domain: Arc<str>) -> Self {
        Self {
            inspector,
            cluster_domain,
        }
    }

    /// Returns the destination of a path.
    pub(super) fn destination(&self, path: &str) -> Result<Destination, InvalidAuthority> {
        Destination::of(path, &self.cluster_domain)
    }

    /// Waits for what follows a destination. Before the first Resync and the first workloads the call is answered at
    /// once, and its messages wait.
    pub(super) async fn begin(
        &self,
        following: impl Future<Output = Begun> + Send + 'static,
    ) -> Result<BoxFuture<'static, Begun>, Status> {
        let reports = self.inspector.reports();
        if reports.health().synced && !reports.are_workloads_awaited() {
            return Ok(ready(Ok(following.await?)).boxed());
        }
        Ok(following.boxed())
    }

    /// Follows a destination, from the first Resync on.
    pub(super) fn follow(
        &self,
        destination: &Destination,
    ) -> impl Future<Output = Begun> + Send + use<> {
        let (inspector, query) = (self.inspector.clone(), destination.query());
        async move {
            let following = inspector.follow(query).await;
            following.map_err(|error| unreadable(&error))
        }
    }
}
