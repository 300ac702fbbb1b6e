//! A split as linkerd's proxies get it.

use std::{net::SocketAddr, sync::Once};

use linkerd2_proxy_api::destination::WeightedDst;
use shunt_model::{
    ServiceTarget, Split, SplitBackend, SplitFrontends, SplitMode, SplitTarget, TargetKind,
};
use tracing::info;

use crate::linkerd::{metadata::service_ref, settings::LinkerdSettings};

/// The hostname of an instance that services do not have. It has to be a valid label: proxies ignore other names.
const NO_INSTANCE: &str = "no-backend";

/// The destinations that the connections of a service port are shared out among; none without a split.
/// A backend without a name is left out. If no other one is left, the destination is one that fails: without any,
/// proxies would use the service's own endpoints.
pub(super) fn overrides(
    kind: TargetKind,
    target: &ServiceTarget,
    settings: &LinkerdSettings,
) -> Vec<WeightedDst> {
    let Some(Split { mode, backends, .. }) = split_of(kind, target) else {
        return Vec::new();
    };
    let shown = |backend: &SplitBackend| weighted(backend, settings);
    let mut shown: Vec<WeightedDst> = match mode {
        SplitMode::Available | SplitMode::Strict => backends.iter().filter_map(shown).collect(),
        // There are no shares: proxies know no order. Where no backend can be used, any of them fails.
        SplitMode::First => {
            let takes = target.first.and_then(|place| backends.get(place));
            let first = || backends.iter().find(|backend| backend.weight > 0);
            takes.or_else(first).and_then(shown).into_iter().collect()
        }
    };
    if shown.is_empty() {
        let weights = backends.iter().map(|backend| backend.weight);
        shown.push(failing(target, weights.sum(), settings));
    }
    shown
}

/// Returns the split of a service port for clients of an address of this kind.
pub(super) fn split_of(kind: TargetKind, target: &ServiceTarget) -> Option<&Split> {
    let split = target.split.as_deref()?;
    let is_at_cluster_ip = matches!(kind, TargetKind::ClusterIp | TargetKind::Service);
    (split.frontends == SplitFrontends::All || is_at_cluster_ip).then_some(split)
}

/// A destination without endpoints.
fn failing(target: &ServiceTarget, weight: u32, settings: &LinkerdSettings) -> WeightedDst {
    let ServiceTarget { service, port, .. } = target;
    WeightedDst {
        authority: format!("{NO_INSTANCE}.{}:{port}", settings.name_of(service)),
        weight: weight.max(1),
        backend_ref: None,
    }
}

fn weighted(backend: &SplitBackend, settings: &LinkerdSettings) -> Option<WeightedDst> {
    let SplitBackend { target, weight } = backend;
    let (authority, backend_ref) = match target {
        SplitTarget::Service { id, port } => {
            let authority = format!("{}:{port}", settings.name_of(id));
            (authority, service_ref(id, *port))
        }
        SplitTarget::Address { ip, port } => {
            static LOGGED: Once = Once::new();
            LOGGED.call_once(|| {
                let address = SocketAddr::new(*ip, port.get());
                info!(%address, "linkerd's proxies do not use backends by address: splits leave them out for proxies");
            });
            return None;
        }
        SplitTarget::Invalid { reason: _ } => return None,
    };
    Some(WeightedDst {
        authority,
        weight: *weight,
        backend_ref: Some(backend_ref),
    })
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU16, sync::Arc};

    use shunt_model::{Protocol, ServiceId, TrafficPolicy};

    use super::*;

    const BY_ADDRESS: SplitTarget = SplitTarget::Address {
        ip: std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
        port: NonZeroU16::new(8080).unwrap(),
    };

    fn invalid() -> SplitTarget {
        SplitTarget::Invalid {
            reason: "not permitted".into(),
        }
    }

    fn named(name: &str) -> SplitTarget {
        named_at(name, 80)
    }

    fn named_at(name: &str, port: u16) -> SplitTarget {
        SplitTarget::Service {
            id: Arc::new(id(name)),
            port,
        }
    }

    fn id(name: &str) -> ServiceId {
        ServiceId {
            namespace: "default".into(),
            name: name.into(),
        }
    }

    /// The authorities and weights of a split between these backends, none of which can be used.
    fn shown(mode: SplitMode, backends: &[(SplitTarget, u32)]) -> Vec<(String, u32)> {
        shown_with(mode, None, backends)
    }

    /// The same, where the backend at this place takes all in mode `first`.
    fn shown_with(
        mode: SplitMode,
        first: Option<usize>,
        backends: &[(SplitTarget, u32)],
    ) -> Vec<(String, u32)> {
        let backends = backends.iter().map(|(target, weight)| SplitBackend {
            target: target.clone(),
            weight: *weight,
        });
        let target = ServiceTarget {
            service: Arc::new(id("web")),
            port_name: "main".into(),
            port: 80,
            protocol: Protocol::Tcp,
            node_port: None,
            cluster_ips: Vec::new(),
            traffic_policy: TrafficPolicy::Cluster,
            internal_traffic_policy: TrafficPolicy::Cluster,
            affinity_timeout: 0,
            opaque_ports: None,
            profile: None,
            hostnames: None,
            split: Some(Arc::new(Split {
                mode,
                frontends: SplitFrontends::All,
                backends: backends.collect(),
            })),
            first,
            frontend: None,
        };
        let settings = LinkerdSettings::of_domain("cluster.local");
        let shown = overrides(TargetKind::ClusterIp, &target, &settings).into_iter();
        shown
            .map(|destination| (destination.authority, destination.weight))
            .collect()
    }

    #[test]
    fn backends_without_a_name_are_left_out() {
        let backends = [(named("a"), 50), (BY_ADDRESS, 30), (invalid(), 20)];
        for mode in [SplitMode::Available, SplitMode::Strict, SplitMode::First] {
            let only = ("a.default.svc.cluster.local:80".to_owned(), 50);
            assert_eq!(shown(mode, &backends), [only], "{mode:?}");
        }
    }

    #[test]
    fn the_rendering_chooses_the_backend_of_mode_first() {
        // Endpoints do not distinguish two backends of one service.
        let backends = [(named("a"), 1), (named_at("a", 81), 1), (named("b"), 1)];
        for (first, expected) in [
            (Some(0), "a.default.svc.cluster.local:80"),
            (Some(1), "a.default.svc.cluster.local:81"),
            (Some(2), "b.default.svc.cluster.local:80"),
            (None, "a.default.svc.cluster.local:80"),
        ] {
            let found = shown_with(SplitMode::First, first, &backends);
            assert_eq!(found, [(expected.to_owned(), 1)], "{first:?}");
        }
    }

    #[test]
    fn a_split_without_a_named_backend_fails_and_is_not_the_services_own_endpoints() {
        let fails = |weight| {
            let authority = "no-backend.web.default.svc.cluster.local:80".to_owned();
            [(authority, weight)]
        };
        for mode in [SplitMode::Available, SplitMode::Strict, SplitMode::First] {
            let backends = [(invalid(), 3), (BY_ADDRESS, 4)];
            assert_eq!(shown(mode, &backends), fails(7), "{mode:?}");
            assert_eq!(shown(mode, &[(invalid(), 0)]), fails(1), "{mode:?}");
            assert_eq!(shown(mode, &[]), fails(1), "{mode:?}");
        }
    }
}
