//! The service's methods.

use std::{net::SocketAddr, num::NonZeroU16, sync::Arc};

use linkerd2_proxy_api::outbound::{
    OutboundPolicy, TrafficSpec, outbound_policies_server, traffic_spec::Target,
};
use tonic::{Request, Response, Status, async_trait};

use crate::linkerd::{
    authority::Destination,
    follower::{Begun, Follower},
    messages::{Messages, messages},
    meters::WATCH,
    outbound::policy::{Policy, no_such_service},
    settings::LinkerdSettings,
    shared::{Followed, Shared},
};

/// `io.linkerd.proxy.outbound.OutboundPolicies`.
pub(in crate::linkerd) struct OutboundService {
    follower: Follower,
    policies: Followed<Policy>,
}

impl OutboundService {
    pub(in crate::linkerd) fn new(follower: Follower, settings: Arc<LinkerdSettings>) -> Self {
        Self {
            follower,
            policies: Followed::new(settings),
        }
    }

    fn destination(&self, spec: TrafficSpec) -> Result<Destination, Status> {
        let TrafficSpec {
            // Nothing depends on who asks.
            source_workload: _,
            target,
        } = spec;
        match target {
            Some(Target::Addr(address)) => {
                let address = SocketAddr::try_from(address);
                let address = address
                    .map_err(|error| Status::invalid_argument(format!("target.addr: {error}")))?;
                let port = NonZeroU16::new(address.port());
                Ok(Destination::Address {
                    ip: address.ip().to_canonical(),
                    port: port.ok_or_else(|| Status::invalid_argument("target.addr: port 0"))?,
                })
            }
            Some(Target::Authority(authority)) => {
                let destination = self.follower.destination(&authority);
                destination.map_err(|error| {
                    // A name of elsewhere: proxies go there without a policy.
                    if is_readable(&authority) {
                        no_such_service()
                    } else {
                        error.into()
                    }
                })
            }
            None => Err(Status::invalid_argument("target: there is none")),
        }
    }

    /// Begins to follow the policy of a service; an error if the target is none.
    fn follow(
        &self,
        destination: Destination,
    ) -> (
        impl Future<Output = Begun> + Send + use<>,
        Arc<Shared<Policy>>,
    ) {
        let following = self.follower.follow(&destination);
        let shared = self.policies.share(destination);
        let own = Arc::clone(&shared);
        let served = async move {
            let following = following.await?;
            let Policy(policy) = &*own.of(following.current());
            policy.as_ref().ok_or_else(no_such_service)?;
            Ok(following)
        };
        (served, shared)
    }
}

/// Returns whether the text is a host, with a port or without.
fn is_readable(authority: &str) -> bool {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !host.is_empty()
        && host.chars().all(is_host)
        && port.is_none_or(|port| port.parse::<NonZeroU16>().is_ok())
}

#[async_trait]
impl outbound_policies_server::OutboundPolicies for OutboundService {
    async fn get(&self, request: Request<TrafficSpec>) -> Result<Response<OutboundPolicy>, Status> {
        let destination = self.destination(request.into_inner())?;
        let (following, shared) = self.follow(destination);
        let following = following.await?;
        let Policy(policy) = &*shared.of(following.current());
        let policy = policy.clone().ok_or_else(no_such_service)?;
        Ok(Response::new(policy))
    }

    type WatchStream = Messages<OutboundPolicy>;

    async fn watch(
        &self,
        request: Request<TrafficSpec>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let destination = self.destination(request.into_inner())?;
        let (following, shared) = self.follow(destination);
        let following = self.follower.begin(following).await?;
        Ok(Response::new(messages(following, shared, &WATCH)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_or_without_a_port_is_readable() {
        for (authority, expected) in [
            ("www.example.org", true),
            ("www.example.org:443", true),
            ("web.shop:80", true),
            ("www.example.org:0", false),
            ("www.example.org:https", false),
            ("www.example.org:", false),
            (":80", false),
            ("", false),
            ("a b", false),
            ("\u{1b}[2J", false),
        ] {
            assert_eq!(is_readable(authority), expected, "{authority}");
        }
    }
}
