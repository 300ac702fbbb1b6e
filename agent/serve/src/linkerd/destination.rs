//! The service's methods.

use std::sync::Arc;

use linkerd2_proxy_api::destination::{
    DestinationProfile, GetDestination, Update, destination_server,
};
use tonic::{Request, Response, Status, async_trait};

use crate::linkerd::{
    addresses::Addresses,
    authority::{Destination, Name},
    client::Token,
    follower::{Begun, Follower},
    messages::{Messages, messages},
    meters::{GET, GET_PROFILE},
    profile::Profile,
    settings::LinkerdSettings,
    shared::{Followed, Shared},
};

/// `io.linkerd.proxy.destination.Destination`.
pub(super) struct DestinationService {
    follower: Follower,
    addresses: Followed<Addresses>,
    profiles: Followed<Profile>,
}

impl DestinationService {
    pub(super) fn new(follower: Follower, settings: Arc<LinkerdSettings>) -> Self {
        Self {
            follower,
            addresses: Followed::new(Arc::clone(&settings)),
            profiles: Followed::new(settings),
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
        let destination = self.follower.destination(&path)?;
        let following = self
            .follower
            .begin(self.follower.follow(&destination))
            .await?;
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
        let destination = self.follower.destination(&path)?;
        let following = self.follower.follow(&destination);
        let Token { namespace, .. } = Token::of(&context_token);
        let shared = self.profiles.share((destination.clone(), namespace));
        let following = known(following, destination, Arc::clone(&shared));
        let following = self.follower.begin(following).await?;
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
