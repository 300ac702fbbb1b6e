//! A split as linkerd's proxies are told of it.

use linkerd2_proxy_api::destination::WeightedDst;
use shunt_model::{
    EndpointView, ServiceTarget, Split, SplitBackend, SplitFrontends, SplitMode, SplitTarget,
    TargetKind, Use,
};

use crate::serve::linkerd::{metadata::service_ref, settings::LinkerdSettings};

/// The destinations that the connections of a service port are shared out among; none without a split.
/// What cannot be reached by any name is left out.
pub(super) fn overrides(
    kind: TargetKind,
    target: &ServiceTarget,
    endpoints: &[EndpointView],
    settings: &LinkerdSettings,
) -> Vec<WeightedDst> {
    let Some(Split {
        mode,
        frontends,
        backends,
    }) = target.split.as_deref()
    else {
        return Vec::new();
    };
    let is_at_cluster_ip = matches!(kind, TargetKind::ClusterIp | TargetKind::Service);
    if *frontends == SplitFrontends::ClusterIp && !is_at_cluster_ip {
        return Vec::new();
    }
    let shown = |backend: &SplitBackend| weighted(backend, settings);
    match mode {
        SplitMode::Available | SplitMode::Strict => backends.iter().filter_map(shown).collect(),
        // There are no shares: proxies cannot be told of an order.
        SplitMode::First => {
            let mut weighted = backends.iter().filter(|backend| backend.weight > 0);
            let first = weighted.clone().next();
            let takes = weighted.find(|backend| is_in_use(&backend.target, endpoints));
            takes.or(first).and_then(shown).into_iter().collect()
        }
    }
}

fn weighted(backend: &SplitBackend, settings: &LinkerdSettings) -> Option<WeightedDst> {
    let SplitBackend { target, weight } = backend;
    let (authority, backend_ref) = match target {
        SplitTarget::Service { id, port } => {
            let authority = format!("{}:{port}", settings.name_of(id));
            (authority, Some(service_ref(id, *port)))
        }
        SplitTarget::Address { ip, port } => {
            (std::net::SocketAddr::new(*ip, port.get()).to_string(), None)
        }
        SplitTarget::Invalid { reason: _ } => return None,
    };
    Some(WeightedDst {
        authority,
        weight: *weight,
        backend_ref,
    })
}

/// Whether the datapath chooses an endpoint of this backend for new connections.
fn is_in_use(target: &SplitTarget, endpoints: &[EndpointView]) -> bool {
    let is_of = |endpoint: &EndpointView| match target {
        SplitTarget::Service { id, port: _ } => endpoint.service == *id,
        SplitTarget::Address { ip, port } => {
            (endpoint.key.ip, endpoint.key.port) == (*ip, port.get())
        }
        SplitTarget::Invalid { reason: _ } => false,
    };
    let mut endpoints = endpoints.iter();
    endpoints.any(|endpoint| endpoint.used_here == Use::New && is_of(endpoint))
}
