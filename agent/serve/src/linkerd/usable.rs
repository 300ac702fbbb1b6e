//! Choice of a service's endpoints for a client.

use std::collections::BTreeSet;

use shunt_model::{EndpointView, TrafficPolicy, WorkloadKind};

use crate::linkerd::client::Client;

/// Returns those of a service's own `endpoints` that a client's new connections may go to, as the datapath
/// chooses for clients on its node: of each family those that are ready, or if there are none those that
/// are terminating and still serving; of the node's own if the policy requires it.
///
/// A pod that is there in both families is one endpoint, at its IPv6 address. Without `ipv6` there are no endpoints of
/// that family.
pub(super) fn usable<'a>(
    endpoints: impl IntoIterator<Item = &'a EndpointView>,
    policy: TrafficPolicy,
    client: &Client,
    ipv6: bool,
) -> Vec<&'a EndpointView> {
    let in_scope = |endpoint: &EndpointView| match (policy, &client.node, &endpoint.node) {
        (TrafficPolicy::Cluster, ..) => endpoint.scopes.cluster,
        (TrafficPolicy::Local, Some(asking), Some(own)) => **asking == **own,
        (TrafficPolicy::Local, ..) => endpoint.scopes.local,
    };
    let endpoints = endpoints.into_iter();
    let (v4, v6): (Vec<_>, Vec<_>) = endpoints
        .filter(|endpoint| ipv6 || endpoint.key.ip.is_ipv4())
        .filter(|endpoint| endpoint.weight > 0 && in_scope(endpoint))
        .partition(|endpoint| endpoint.key.ip.is_ipv4());
    let (v4, v6) = (taking(v4), taking(v6));
    let pod = |endpoint: &'a EndpointView| {
        let id = &endpoint.workload.as_ref()?.id;
        (id.kind == WorkloadKind::Pod).then_some(id)
    };
    let at_v6: BTreeSet<_> = v6.iter().copied().filter_map(pod).collect();
    let alone = v4
        .into_iter()
        .filter(|endpoint| pod(endpoint).is_none_or(|pod| !at_v6.contains(pod)));
    alone.chain(v6.iter().copied()).collect()
}

/// Returns the endpoints that take new connections.
fn taking(endpoints: Vec<&EndpointView>) -> Vec<&EndpointView> {
    let falls_back = !endpoints.iter().any(|endpoint| endpoint.ready);
    let endpoints = endpoints.into_iter();
    endpoints
        .filter(|endpoint| endpoint.ready || falls_back && endpoint.terminating && endpoint.serving)
        .collect()
}
