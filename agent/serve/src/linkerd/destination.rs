//! The service's methods.

use std::{future::ready, sync::Arc};

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
        client::Token,
        messages::{Messages, messages},
        meters::{GET, GET_PROFILE},
        profile::Profile,
        settings::LinkerdSettings,
        shared::{Followed, Shared},
    },
};

/// Following of a destination, or why there is none.
type Begun = Result<Following, Status>;

/// `io.linkerd.proxy.destination.Destination`.
pub(super) struct DestinationService {
    inspector: Inspector,
    cluster_domain: Arc<str>,
    addresses: Followed<Addresses>,
    profiles: Followed<Profile>,
}

impl DestinationService {
    pub(super) fn new(inspector: Inspector, settings: LinkerdSettings) -> Self {
        let settings = Arc::new(settings);
        Self {
            inspector,
            cluster_domain: Arc::clone(&settings.cluster_domain),
            addresses: Followed::new(Arc::clone(&settings)),
            profiles: Followed::new(settings),
        }
    }

    fn destination(&self, path: &str) -> Result<Destination, Status> {
        Ok(Destination::of(path, &self.cluster_domain)?)
    }

    /// Waits for what follows a destination. Before the first Resync and the first workloads the call is answered at
    /// once, and its messages wait.
    async fn begin(
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
    fn follow(&self, destination: &Destination) -> impl Future<Output = Begun> + Send + use<> {
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
        let Token { client, .. } = Token::of(&context_token);
        let shared = self.addresses.share((destination, client));
        Ok(Response::new(messages(following, shared, &GET)))
    }

    type GetProfileStream = Messages<DestinationProfile>;

    async fn get_profile(
        &self,
        request: Request<GetDestination>,
    ) -> Result<Response<Self::GetProfileStream>, Status> {
        let GetDestination {
            scheme: _,
            path,
            context_token,
        } = request.into_inner();
        let destination = self.destination(&path)?;
        let following = self.follow(&destination);
        let Token { namespace, .. } = Token::of(&context_token);
        let shared = self.profiles.share((destination.clone(), namespace));
        let following = known(following, destination, Arc::clone(&shared));
        let following = self.begin(following).await?;
        Ok(Response::new(messages(following, shared, &GET_PROFILE)))
    }
}

/// Returns what follows the destination, unless that is an instance that the service does not have.
async fn known(
    following: impl Future<Output = Begun> + Send,
    destination: Destination,
    shared: Arc<Shared<Profile>>,
) -> Begun {
    let following = following.await?;
    let is_instance = matches!(
        destination,
        Destination::Name(Name {
            instance: Some(_),
            ..
        })
    );
    let is_there = || shared.of(following.current()).0.endpoint.is_some();
    if is_instance && !is_there() {
        return Err(Status::not_found(
            "no endpoint of the service has that hostname",
        ));
    }
    Ok(following)
}
