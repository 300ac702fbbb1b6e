//! The service's methods.

use linkerd2_proxy_api::destination::{
    DestinationProfile, GetDestination, Update, destination_server,
};
use tonic::{Request, Response, Status, async_trait};

use crate::{
    runtime::{inspector::Inspector, lookup::following::Following},
    serve::{
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
    },
};

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

    async fn follow(&self, path: &str) -> Result<(Destination, Following), Status> {
        let destination = Destination::of(path, &self.settings.cluster_domain)?;
        let following = self.inspector.follow(destination.query()).await;
        let following = following.map_err(|error| unreadable(&error))?;
        Ok((destination, following))
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
        let (destination, following) = self.follow(&path).await?;
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
        let (destination, following) = self.follow(&path).await?;
        let settings = self.settings.clone();
        if let Destination::Name(Name {
            instance: Some(_), ..
        }) = &destination
        {
            let answer = &following.current().answer;
            if profile(&destination, answer, &settings).endpoint.is_none() {
                return Err(Status::not_found(
                    "no pod of that name is behind the service",
                ));
            }
        }
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
