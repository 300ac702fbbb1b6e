//! A client of the API, which shows its messages as text.

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use linkerd2_proxy_api::{
    destination::{
        DestinationProfile, GetDestination, Update, WeightedAddr,
        destination_client::DestinationClient, update::Update as Kind,
    },
    meta::{Metadata, metadata},
    net::TcpAddress,
};
use shunt_tests::patience;
use tokio::time::{sleep, timeout};
use tonic::{
    Status, Streaming,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

/// Time that a message may take, with much else to do on the machine.
const SOON: Duration = Duration::from_secs(10);

/// The name of the service.
const NAME: &str = "io.linkerd.proxy.destination.Destination";

pub(super) fn block_on<T>(client: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(client)
}

pub(super) async fn connect(place: &str) -> Channel {
    let endpoint = Endpoint::from_shared(place.to_owned()).unwrap();
    endpoint.connect().await.unwrap()
}

/// A client.
pub(super) struct Client(DestinationClient<Channel>);

/// A stream that a client follows.
#[derive(Debug)]
pub(super) struct Followed<T>(Streaming<T>);

impl Client {
    /// Of the API that is served there.
    pub(super) async fn at(place: &str) -> Self {
        Self(DestinationClient::new(connect(place).await))
    }

    pub(super) async fn get(
        &mut self,
        path: &str,
        token: &str,
    ) -> Result<Followed<Update>, Status> {
        let updates = self.0.get(request(path, token)).await?;
        Ok(Followed(updates.into_inner()))
    }

    pub(super) async fn profile(
        &mut self,
        path: &str,
    ) -> Result<Followed<DestinationProfile>, Status> {
        self.profile_for(path, "").await
    }

    /// The same for a client with this token.
    pub(super) async fn profile_for(
        &mut self,
        path: &str,
        token: &str,
    ) -> Result<Followed<DestinationProfile>, Status> {
        let profiles = self.0.get_profile(request(path, token)).await?;
        Ok(Followed(profiles.into_inner()))
    }
}

fn request(path: &str, token: &str) -> GetDestination {
    GetDestination {
        scheme: "k8s".to_owned(),
        path: path.to_owned(),
        context_token: token.to_owned(),
    }
}

impl<T> Followed<T> {
    async fn message(&mut self) -> T {
        let next = timeout(patience(SOON), self.0.message()).await;
        next.expect("a message comes").unwrap().expect("it goes on")
    }
}

impl Followed<Update> {
    /// The next message as text: `+ADDRESS(WORKLOAD)` or `-ADDRESS` for each address, `none` for a
    /// destination without any, `missing` for none.
    pub(super) async fn next(&mut self) -> String {
        match self.message().await.update.unwrap() {
            Kind::Add(set) => {
                let added = set
                    .addrs
                    .iter()
                    .map(|found| format!("+{}", endpoint(found)));
                added.collect::<Vec<_>>().join(" ")
            }
            Kind::Remove(set) => {
                let removed = set
                    .addrs
                    .into_iter()
                    .map(|gone| format!("-{}", address(gone)));
                removed.collect::<Vec<_>>().join(" ")
            }
            Kind::NoEndpoints(none) if none.exists => "none".to_owned(),
            Kind::NoEndpoints(_) => "missing".to_owned(),
        }
    }

    /// Returns the additions of the next message, with the labels of all of it.
    pub(super) async fn added(&mut self) -> (HashMap<String, String>, Vec<WeightedAddr>) {
        match self.message().await.update.unwrap() {
            Kind::Add(set) => (set.metric_labels, set.addrs),
            other => panic!("{other:?} adds nothing"),
        }
    }
}

impl Followed<DestinationProfile> {
    pub(super) async fn profile(&mut self) -> DestinationProfile {
        self.message().await
    }

    /// The next profile as text: the name, the endpoint, whether it is opaque, and what it is shared out
    /// among; `nothing` if it is empty.
    pub(super) async fn next(&mut self) -> String {
        let profile = self.profile().await;
        if profile == DestinationProfile::default() {
            return "nothing".to_owned();
        }
        assert!(profile.retry_budget.is_some(), "{profile:?}");
        let DestinationProfile {
            fully_qualified_name,
            opaque_protocol,
            endpoint: found,
            dst_overrides,
            ..
        } = profile;
        let mut text = match found {
            Some(found) => format!("endpoint {}", endpoint(&found)),
            None if fully_qualified_name.is_empty() => "unknown".to_owned(),
            None => fully_qualified_name,
        };
        if opaque_protocol {
            text += " opaque";
        }
        let shares = dst_overrides.iter();
        let shares = shares.map(|to| format!("{}*{}", to.authority, to.weight));
        let shares: Vec<_> = shares.collect();
        if !shares.is_empty() {
            text += " -> ";
            text += &shares.join(" ");
        }
        text
    }
}

fn address(address: TcpAddress) -> SocketAddr {
    address.try_into().unwrap()
}

fn endpoint(found: &WeightedAddr) -> String {
    let place = address(found.addr.unwrap());
    let own = &found.metric_labels;
    let runs = own.get("pod").or_else(|| own.get("external_workload"));
    runs.map_or_else(|| place.to_string(), |runs| format!("{place}({runs})"))
}

/// Labels as text, sorted.
pub(super) fn labels(labels: &HashMap<String, String>) -> String {
    let mut texts: Vec<_> = labels
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    texts.sort();
    texts.join(" ")
}

/// A reference as text.
pub(super) fn resource(reference: Option<Metadata>) -> String {
    match reference.and_then(|metadata| metadata.kind) {
        Some(metadata::Kind::Resource(to)) => format!(
            "{}/{} {}/{}:{}",
            to.group, to.kind, to.namespace, to.name, to.port
        ),
        other => panic!("{other:?} refers to nothing"),
    }
}

/// The services that the server shows, sorted, after a look at the description of ours.
pub(super) async fn reflected(place: &str) -> Vec<String> {
    let mut client = ServerReflectionClient::new(connect(place).await);
    let ask = |request| ServerReflectionRequest {
        host: String::new(),
        message_request: Some(request),
    };
    let requests = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol(NAME.to_owned())),
    ];
    let answers = client
        .server_reflection_info(tokio_stream::iter(requests))
        .await;
    let mut answers = answers.unwrap().into_inner();
    let mut next = async || {
        answers
            .message()
            .await
            .unwrap()
            .unwrap()
            .message_response
            .unwrap()
    };
    let MessageResponse::ListServicesResponse(list) = next().await else {
        panic!("no list");
    };
    let MessageResponse::FileDescriptorResponse(files) = next().await else {
        panic!("no description");
    };
    assert!(!files.file_descriptor_proto.is_empty());
    let mut names: Vec<_> = list
        .service
        .into_iter()
        .map(|service| service.name)
        .collect();
    names.sort();
    names
}

pub(super) async fn is_healthy(place: &str) -> bool {
    let mut client = HealthClient::new(connect(place).await);
    let request = HealthCheckRequest {
        service: NAME.to_owned(),
    };
    let status = client.check(request).await.unwrap().into_inner().status();
    status == ServingStatus::Serving
}

pub(super) async fn wait_until_healthy(place: &str) {
    let healthy = async {
        while !is_healthy(place).await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(patience(SOON), healthy).await.unwrap();
}
