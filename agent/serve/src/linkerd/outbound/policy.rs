//! The policy of a service's port.

use std::{sync::Arc, time::Duration};

use linkerd2_proxy_api::outbound::{
    OutboundPolicy, ProxyProtocol,
    proxy_protocol::{Detect, Http1, Http2, Kind, Opaque},
};
use shunt_model::{Answer, ServiceId, ServiceTarget, TargetKind, Who};
use tonic::Status;

use crate::linkerd::{
    addresses::declared,
    authority::Destination,
    metadata::service_ref,
    outbound::{
        routes::{forbidden, http, opaque},
        shares::Shares,
    },
    settings::LinkerdSettings,
    shared::Made,
};

/// Time in which a client has to send something by which its protocol is known, as linkerd has it.
const DETECTION: Duration = Duration::from_secs(10);

/// The policy of a target; `None`: it is no service.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Policy(pub(super) Option<OutboundPolicy>);

impl Made for Policy {
    /// Nothing of a policy depends on who asks.
    type Question = Destination;
    type Settings = Arc<LinkerdSettings>;
    type Memory = ();
    type Message = OutboundPolicy;

    fn make(
        destination: &Destination,
        settings: &Arc<LinkerdSettings>,
        answer: &Answer,
        (): &mut (),
    ) -> Self {
        Self(match destination {
            Destination::Address { port, .. } => {
                let mut targets = answer.targets.iter();
                let target = targets.find(|target| target.in_use);
                target.and_then(|target| match &target.who {
                    Who::Service(own) => Some(of_service(target.kind, own, settings)),
                    Who::UndefinedPort { service, .. } => Some(of_no_port(service, port.get())),
                    _ => None,
                })
            }
            // An instance is no service: proxies use its profile.
            Destination::Name(name) if name.instance.is_some() => None,
            Destination::Name(name) => match declared(name, answer) {
                Some((kind, own)) => Some(of_service(kind, own, settings)),
                None if answer.targets.is_empty() => None,
                None => Some(of_no_port(&name.service, name.port.get())),
            },
        })
    }

    fn messages(old: Option<&Self>, new: &Self) -> Vec<OutboundPolicy> {
        let is_new = old != Some(new);
        new.0.iter().filter(|_| is_new).cloned().collect()
    }

    /// The target of a stream that ends may be something else from then on: proxies ask again.
    fn end(&self) -> Option<Status> {
        self.0.is_none().then(no_such_service)
    }
}

/// The error for a target that is no service.
pub(super) fn no_such_service() -> Status {
    Status::not_found("no such service")
}

fn of_service(
    kind: TargetKind,
    target: &ServiceTarget,
    settings: &LinkerdSettings,
) -> OutboundPolicy {
    let ServiceTarget {
        service,
        port,
        opaque_ports,
        ..
    } = target;
    let shares = Shares::of(kind, target, settings);
    let opaque = Opaque {
        routes: vec![opaque(&shares)],
    };
    let kind = if settings.is_opaque(opaque_ports.as_deref(), *port) {
        Kind::Opaque(opaque)
    } else {
        let routes = vec![http(&shares)];
        Kind::Detect(Detect {
            timeout: DETECTION.try_into().ok(),
            opaque: Some(opaque),
            http1: Some(Http1 {
                routes: routes.clone(),
                failure_accrual: None,
            }),
            http2: Some(Http2 {
                routes,
                failure_accrual: None,
            }),
        })
    };
    policy(service, *port, kind)
}

/// The policy of a port that the service does not declare: connections to it are refused.
fn of_no_port(service: &ServiceId, port: u16) -> OutboundPolicy {
    let routes = vec![forbidden("undefined-port")];
    policy(service, port, Kind::Opaque(Opaque { routes }))
}

fn policy(service: &ServiceId, port: u16, kind: Kind) -> OutboundPolicy {
    OutboundPolicy {
        protocol: Some(ProxyProtocol { kind: Some(kind) }),
        metadata: Some(service_ref(service, port)),
    }
}
