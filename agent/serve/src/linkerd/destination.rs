//! The service's methods.

use std::future::ready;

use futures_util::future::{BoxFuture, FutureExt as _};
use linkerd2_proxy_api::destination::{
    DestinationProfile, GetDestination, Update, destination_server,
};
use shunt_runtime::{Following, Inspector};
use tonic::{Request, Response, Status, async_trait};

use crate::{
    grpc::status_code::unreadable,
    linkerd::{
        addresses::Addresses,
        authority::{Destination, Name},
        client::Client,
        messages::{Messages, messages},
        profile::profile,
        settings::LinkerdSettings,
        updates::updates,
    },
};

/// Following of a destination, or why there is none.
type Followed = Result<Following, Status>;

/// `io.linkerd.proxy.destination.Destination`.
#[derive(Debug)]
pub(super) struct DestinationService {
    inspector: Inspector,
    settings: LinkerdSettings,
}

impl DestinationService {
    pub(super) const fn new(inspector: Inspector, settings: LinkerdSettings) -> Self {
        Self {
            inspector,
            settings,
        }
    }

    fn destination(&self, path: &str) -> Result<Destination, Status> {
        Ok(Destination::of(path, &self.settings.cluster_domain)?)
    }

    /// Waits for what follows a destination. Before the first Resync and the first workloads the call is answered at
    /// once, and its messages wait.
    async fn begin(
        &self,
        following: impl Future<Output = Followed> + Send + 'static,
    ) -> Result<BoxFuture<'static, Followed>, Status> {
        let reports = self.inspector.reports();
        if reports.health().synced && !reports.are_workloads_awaited() {
            return Ok(ready(Ok(following.await?)).boxed());
        }
        Ok(following.boxed())
    }

    /// Follows a destination, from the first Resync on.
    fn follow(&self, destination: &Destination) -> impl Future<Output = Followed> + Send + use<> {
        let (inspector, query) = (self.inspector.clone(), destination.query());
        async move {
            let following = inspector.follow(query).await;
            following.map_err(|error| unreadable(&error))
        }
    }
}

#[async_trait]
impl destination_server::Destination for DestinationService {
    type GetStream = Messages<Update>;

    async fn get(
        &self,
        request: Request<GetDestination>,
    ) -> Result<Response<Self::GetStream>, Status> {
        let GetDestination {
            scheme: _,
            path,
            context_token,
        } = request.into_inner();
        let destination = self.destination(&path)?;
        let following = self.begin(self.follow(&destination)).await?;
        let client = Client::of(&context_token);
        let mut told = None;
        let stream = messages(following, move |answer| {
            let newest = Addresses::of(&destination, answer, &client);
            let updates = updates(told.as_ref(), &newest);
            told = Some(newest);
            updates
        });
        Ok(Response::new(stream))
    }

    type GetProfileStream = Messages<DestinationProfile>;

    async fn get_profile(
        &self,
        request: Request<GetDestination>,
    ) -> Result<Response<Self::GetProfileStream>, Status> {
        let GetDestination {
            scheme: _,
            path,
            // Nothing of a profile depends on who asks.
            context_token: _,
        } = request.into_inner();
        let destination = self.destination(&path)?;
        let settings = self.settings.clone();
        let following = self.follow(&destination);
        let following = known(following, destination.clone(), settings.clone());
        let following = self.begin(following).await?;
        let mut told = None;
        let stream = messages(following, move |answer| {
            let newest = profile(&destination, answer, &settings);
            let is_new = told.as_ref() != Some(&newest);
            told = Some(newest.clone());
            is_new.then_some(newest).into_iter().collect()
        });
        Ok(Response::new(stream))
    }
}

/// Returns what follows the destination, unless that is an instance that the service does not have.
async fn known(
    following: impl Future<Output = Followed> + Send,
    destination: Destination,
    settings: LinkerdSettings,
) -> Followed {
    let following = following.await?;
    let is_instance = matches!(
        destination,
        Destination::Name(Name {
            instance: Some(_),
            ..
        })
    );
    let answer = &following.current().answer;
    if is_instance && profile(&destination, answer, &settings).endpoint.is_none() {
        return Err(Status::not_found(
            "no pod of that name is behind the service",
        ));
    }
    Ok(following)
}
