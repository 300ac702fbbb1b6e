//! The destinations of a service port's connections.

use std::{net::SocketAddr, time::Duration};

use linkerd2_proxy_api::{
    meta::{Metadata, metadata},
    outbound::{
        Backend, Queue,
        backend::{
            BalanceP2c, EndpointDiscovery, Kind,
            balance_p2c::{Load, PeakEwma},
            endpoint_discovery::{self, DestinationGet},
        },
    },
};
use shunt_model::{ServiceId, ServiceTarget, SplitBackend, SplitMode, SplitTarget, TargetKind};

use crate::linkerd::{
    metadata::{bare, service_ref},
    overrides::split_of,
    settings::LinkerdSettings,
};

/// The settings of balancers and queues, which linkerd's server sends (policy-controller/grpc/src/outbound.rs).
const DEFAULT_RTT: Duration = Duration::from_millis(30);
const DECAY: Duration = Duration::from_secs(10);
const QUEUE_CAPACITY: u32 = 100;
const FAIL_FAST: Duration = Duration::from_secs(3);

/// The destinations of connections.
pub(super) enum Shares {
    /// The first that is available takes all.
    First(Vec<To>),
    /// Each takes its share, with a weight above 0.
    Random(Vec<(To, u32)>),
}

/// One destination.
pub(super) struct To {
    pub(super) backend: Backend,
    /// Why its connections fail; `None`: they do not.
    pub(super) failure: Option<String>,
}

impl Shares {
    /// Returns the destinations of a port of a service: the service itself, or the backends of its split. There is one
    /// in any case, and none has the weight 0: proxies do not expect either.
    pub(super) fn of(kind: TargetKind, target: &ServiceTarget, settings: &LinkerdSettings) -> Self {
        let Some(split) = split_of(kind, target) else {
            let own = To::service(&target.service, target.port, settings);
            return Self::First(vec![own]);
        };
        let used = split.backends.iter().filter(|backend| backend.weight > 0);
        let shares: Vec<(To, u32)> = used
            .map(|SplitBackend { target, weight }| (To::of(target, settings), *weight))
            .collect();
        if shares.is_empty() {
            let reason = "no backend of the split has a weight".to_owned();
            return Self::First(vec![To::failing(reason)]);
        }
        match split.mode {
            SplitMode::Available | SplitMode::Strict => Self::Random(shares),
            SplitMode::First => Self::First(shares.into_iter().map(|(to, _)| to).collect()),
        }
    }
}

impl To {
    fn of(target: &SplitTarget, settings: &LinkerdSettings) -> Self {
        match target {
            SplitTarget::Service { id, port } => Self::service(id, *port, settings),
            SplitTarget::Address { ip, port } => {
                let address = bare(SocketAddr::new(*ip, port.get()));
                Self::new(named("address"), Some(Kind::Forward(address)))
            }
            SplitTarget::Invalid { reason } => Self::failing(reason.to_string()),
        }
    }

    fn service(service: &ServiceId, port: u16, settings: &LinkerdSettings) -> Self {
        let path = format!("{}:{port}", settings.name_of(service));
        let discovery = EndpointDiscovery {
            kind: Some(endpoint_discovery::Kind::Dst(DestinationGet { path })),
        };
        let load = Load::PeakEwma(PeakEwma {
            default_rtt: DEFAULT_RTT.try_into().ok(),
            decay: DECAY.try_into().ok(),
        });
        let balancer = Kind::Balancer(BalanceP2c {
            discovery: Some(discovery),
            load: Some(load),
        });
        Self::new(service_ref(service, port), Some(balancer))
    }

    fn failing(reason: String) -> Self {
        Self {
            failure: Some(reason),
            ..Self::new(named("invalid"), None)
        }
    }

    fn new(metadata: Metadata, kind: Option<Kind>) -> Self {
        Self {
            backend: Backend {
                metadata: Some(metadata),
                queue: Some(Queue {
                    capacity: QUEUE_CAPACITY,
                    failfast_timeout: FAIL_FAST.try_into().ok(),
                }),
                kind,
            },
            failure: None,
        }
    }
}

/// The metadata of what is no object of the cluster.
pub(super) fn named(name: &str) -> Metadata {
    Metadata {
        kind: Some(metadata::Kind::Default(name.to_owned())),
    }
}
