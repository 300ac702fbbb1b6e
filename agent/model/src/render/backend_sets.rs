//! The backend sets of one service port: one for each address family, traffic policy and selection.

use std::{net::IpAddr, sync::Arc};

use crate::{
    endpoint::{Endpoint, EndpointState, Scopes},
    forwarding::Forwarding,
    maglev::EntriesPerBackend,
    policy::TrafficPolicy,
    render::{
        error::RenderError,
        frontend::{Backend, BackendSet, FrontendKind, PortPart, Refusal},
        options::Balancing,
    },
    selection::Selection,
    service::{Service, ServicePort},
    service_id::ServiceId,
};

/// Makes each set when the first frontend asks for it, and shares it among all that use it.
pub(super) struct BackendSets<'a> {
    service: &'a Arc<ServiceId>,
    port: &'a ServicePort,
    affinity_timeout: u32,
    maglev_entries: EntriesPerBackend,
    local_backend_weight: u32,
    v4: FamilySets,
    v6: FamilySets,
}

/// The sets of one address family.
#[derive(Default)]
struct FamilySets {
    made: Vec<((TrafficPolicy, Selection), Arc<BackendSet>)>,
    /// The Cluster sets with the endpoints that are draining.
    with_draining: Vec<(Selection, Option<Arc<BackendSet>>)>,
    /// The kind of endpoint that takes new connections in each set.
    taking: Taking,
    /// An endpoint on any node is ready, or terminating and serving.
    is_usable: bool,
}

/// The sets that have come down to endpoints that are terminating and still serving (KEP-1669): no ready one in such a
/// set takes new connections. Each set by itself: where others are ready elsewhere, the Local set may have come down to
/// this while the Cluster set has not.
#[derive(Debug, Clone, Copy, Default)]
struct Taking {
    cluster_falls_back: bool,
    /// Only if frontends select from the Local set.
    local_falls_back: Option<bool>,
}

impl<'a> BackendSets<'a> {
    /// The sets of `port`.
    ///
    /// # Errors
    ///
    /// The weights of the usable backends of one family have too large a sum.
    pub(super) fn new(
        service: &'a Service,
        port: &'a ServicePort,
        balancing: &Balancing,
    ) -> Result<Self, RenderError> {
        let affinity_timeout = service.session_affinity_timeout;
        let has_local_frontends = selects_locally(service, port, balancing);
        let local_backend_weight = local_backend_weight(service, port, balancing);
        let service = &service.id;
        let mut sets = Self {
            service,
            port,
            affinity_timeout,
            maglev_entries: balancing.maglev_entries,
            local_backend_weight,
            v4: FamilySets::default(),
            v6: FamilySets::default(),
        };
        for ipv4 in [true, false] {
            // Over all scopes: no set can exceed what fits here, and a change of the nodes, which
            // chooses among the sets, can never make a service wrong that was right. A set has
            // endpoints of one state only that count.
            for state in [EndpointState::Ready, EndpointState::Terminating] {
                sets.listed(ipv4)
                    .filter(|endpoint| endpoint.state == state)
                    .try_fold(0u32, |sum, endpoint| {
                        let share = endpoint.weight.checked_mul(sets.factor(endpoint))?;
                        sum.checked_add(share)
                    })
                    .ok_or_else(|| RenderError::WeightOverflow {
                        service: Arc::clone(service),
                        port: Arc::clone(&port.name),
                        local_backend_weight,
                    })?;
            }
            let falls_back = |is_in: fn(&Endpoint) -> bool| {
                let ready = |endpoint: &Endpoint| endpoint.state == EndpointState::Ready;
                !sets
                    .listed(ipv4)
                    .any(|endpoint| ready(endpoint) && endpoint.weight > 0 && is_in(endpoint))
            };
            let taking = Taking {
                cluster_falls_back: falls_back(|endpoint| endpoint.scopes.cluster),
                local_falls_back: has_local_frontends
                    .then(|| falls_back(|endpoint| endpoint.scopes.local)),
            };
            let usable = |endpoint: &Endpoint| endpoint.weight > 0 && sets.factor(endpoint) > 0;
            let is_usable = sets.listed(ipv4).any(usable);
            let family = sets.family_mut(ipv4);
            (family.taking, family.is_usable) = (taking, is_usable);
        }
        Ok(sets)
    }

    /// Returns the refusal of a frontend on `address` whose own set has no usable backend: it drops if some endpoint,
    /// wherever it is, is ready, or terminating and serving.
    pub(super) const fn refusal(&self, address: IpAddr) -> Refusal {
        if self.family(address.is_ipv4()).is_usable {
            Refusal::Drop
        } else {
            Refusal::Reject
        }
    }

    /// The set that a frontend on `address` selects from under `policy`, in this way.
    pub(super) fn of(
        &mut self,
        address: IpAddr,
        policy: TrafficPolicy,
        selection: Selection,
    ) -> Arc<BackendSet> {
        let ipv4 = address.is_ipv4();
        let wanted = (policy, selection);
        let mut made = self.family(ipv4).made.iter();
        if let Some((_, set)) = made.find(|(what, _)| *what == wanted) {
            return Arc::clone(set);
        }
        let set = self.build(ipv4, policy, selection);
        let FamilySets { made, .. } = self.family_mut(ipv4);
        let equal = made.iter().find(|(_, other)| **other == set);
        let set = equal.map_or_else(|| Arc::new(set), |(_, other)| Arc::clone(other));
        made.push((wanted, Arc::clone(&set)));
        set
    }

    fn build(&self, ipv4: bool, policy: TrafficPolicy, selection: Selection) -> BackendSet {
        let backend = |endpoint: &'a Endpoint| {
            let &Endpoint {
                ip, port, local, ..
            } = endpoint;
            let (weight, scopes) = self.share(ipv4, endpoint);
            let in_scope = match policy {
                TrafficPolicy::Cluster => scopes.cluster,
                TrafficPolicy::Local => scopes.local,
            };
            in_scope.then_some(Backend {
                ip,
                port,
                weight,
                local,
                scopes,
            })
        };
        let mut backends = Vec::with_capacity(self.listed(ipv4).filter_map(backend).count());
        backends.extend(self.listed(ipv4).filter_map(backend));
        let part = match self.port.split {
            Some(_) => PortPart::BesideSplit,
            None => PortPart::Main,
        };
        self.set(backends, part, selection)
    }

    /// The set that a frontend on `address` in mode dsr has for packets of connections that no node knows: the
    /// endpoints of its Cluster set with those that take no new connections, as if each took them. So it is the
    /// Cluster set of before they began to drain. `None` if none is draining.
    pub(super) fn with_draining(
        &mut self,
        address: IpAddr,
        selection: Selection,
    ) -> Option<Arc<BackendSet>> {
        let ipv4 = address.is_ipv4();
        let made = &self.family(ipv4).with_draining;
        if let Some((_, set)) = made.iter().find(|(of, _)| *of == selection) {
            return set.clone();
        }
        let set = self
            .all_of_cluster(ipv4)
            .map(|backends| Arc::new(self.set(backends, PortPart::WithDraining, selection)));
        let made = &mut self.family_mut(ipv4).with_draining;
        made.push((selection, set.clone()));
        set
    }

    /// All endpoints of one family that the Cluster set has or may have, each as if it took new connections; `None` if
    /// each does.
    fn all_of_cluster(&self, ipv4: bool) -> Option<Vec<Backend>> {
        let endpoints = &self.port.endpoints;
        let all = endpoints
            .iter()
            .filter(|endpoint| endpoint.ip.is_ipv4() == ipv4 && endpoint.scopes.cluster);
        let takes = |endpoint| {
            let (weight, scopes) = self.share(ipv4, endpoint);
            weight > 0 && scopes.cluster
        };
        if all.clone().all(takes) {
            return None;
        }
        // The weight of an endpoint that was given none is not known any more. Nearly always all have the same.
        let weights = all.clone().map(|endpoint| endpoint.weight);
        let lightest = weights.filter(|weight| *weight > 0).min().unwrap_or(1);
        let backend = |endpoint: &Endpoint| {
            let weight = match endpoint.weight {
                0 => lightest,
                weight => weight,
            };
            Backend {
                ip: endpoint.ip,
                port: endpoint.port,
                weight: weight.saturating_mul(self.place_factor(endpoint)),
                local: endpoint.local,
                scopes: endpoint.scopes,
            }
        };
        Some(all.map(backend).collect())
    }

    fn set(&self, backends: Vec<Backend>, part: PortPart, selection: Selection) -> BackendSet {
        let maglev = match selection {
            Selection::Weighted => None,
            Selection::Maglev => {
                let usable = backends.iter().filter(|backend| backend.weight > 0);
                Some(self.maglev_entries.table_size(usable.count()))
            }
        };
        BackendSet {
            service: Arc::clone(self.service),
            port: Arc::clone(&self.port.name),
            affinity_timeout: self.affinity_timeout,
            maglev,
            part,
            split: None,
            backends,
        }
    }

    /// The weight of an endpoint, and the sets that have it with this weight.
    ///
    /// A backend has one weight, whatever set it is selected from. So an endpoint that takes new
    /// connections in one set and not in the other is in the first alone; connections that it has
    /// stay with it all the same, since its service port still has it.
    fn share(&self, ipv4: bool, endpoint: &Endpoint) -> (u32, Scopes) {
        let &Endpoint {
            weight,
            state,
            scopes,
            ..
        } = endpoint;
        let &Taking {
            cluster_falls_back,
            local_falls_back,
        } = &self.family(ipv4).taking;
        // Does not saturate: `new` has added the products up.
        let weight = weight.saturating_mul(self.factor(endpoint));
        let takes = |falls_back| match state {
            EndpointState::Ready => true,
            EndpointState::Terminating => falls_back,
            EndpointState::NotReady => false,
        };
        let takes = Scopes {
            cluster: scopes.cluster && takes(cluster_falls_back),
            local: scopes.local && takes(local_falls_back.unwrap_or(cluster_falls_back)),
        };
        if weight > 0 && (takes.cluster || takes.local) {
            (weight, takes)
        } else {
            (0, scopes)
        }
    }

    const fn family(&self, ipv4: bool) -> &FamilySets {
        if ipv4 { &self.v4 } else { &self.v6 }
    }

    const fn family_mut(&mut self, ipv4: bool) -> &mut FamilySets {
        if ipv4 { &mut self.v4 } else { &mut self.v6 }
    }

    /// The endpoints of one family that have connections: those that take new ones, and those on
    /// their way out, which keep theirs. In their order.
    fn listed(&self, ipv4: bool) -> impl Iterator<Item = &'a Endpoint> {
        let endpoints = &self.port.endpoints;
        endpoints
            .iter()
            .filter(move |endpoint| endpoint.ip.is_ipv4() == ipv4)
            .filter(|endpoint| endpoint.state != EndpointState::NotReady)
    }

    /// Returns the factor of the endpoint's weight where it takes new connections.
    const fn factor(&self, endpoint: &Endpoint) -> u32 {
        match endpoint.state {
            EndpointState::Terminating if !endpoint.serving => 0,
            EndpointState::NotReady => 0,
            EndpointState::Ready | EndpointState::Terminating => self.place_factor(endpoint),
        }
    }

    /// The factor of its weight for its place.
    const fn place_factor(&self, endpoint: &Endpoint) -> u32 {
        if endpoint.local {
            self.local_backend_weight
        } else {
            1
        }
    }
}

/// Returns the number of entries of the Maglev tables that the service's ports need for all their endpoints: one table
/// each, and none where no frontend of the port selects by one.
pub(super) fn maglev_entries(service: &Service, balancing: &Balancing) -> u64 {
    let ports = service.ports.iter();
    ports
        .filter(|port| has_maglev_frontends(service, port, balancing))
        .map(|port| balancing.maglev_entries.table_size(port.endpoints.len()))
        .map(|size| u64::from(size.get()))
        .sum()
}

/// Returns whether any frontend of the port selects from the Local set.
fn selects_locally(service: &Service, port: &ServicePort, balancing: &Balancing) -> bool {
    let Service {
        cluster_ips,
        external_ips,
        load_balancer_ips,
        traffic_policy,
        internal_traffic_policy,
        forwarding,
        ..
    } = service;
    let is_dsr = forwarding.unwrap_or(balancing.forwarding) == Forwarding::Dsr;
    let has_external =
        !external_ips.is_empty() || !load_balancer_ips.is_empty() || port.node_port.is_some();
    (*traffic_policy == TrafficPolicy::Local || is_dsr) && has_external
        || *internal_traffic_policy == TrafficPolicy::Local && !cluster_ips.is_empty()
}

/// Returns the factor of the weights of the port's endpoints that are on this node.
pub(super) fn local_backend_weight(
    service: &Service,
    port: &ServicePort,
    balancing: &Balancing,
) -> u32 {
    if has_maglev_frontends(service, port, balancing) {
        1
    } else {
        balancing.local_backend_weight.get()
    }
}

/// Returns whether any frontend of the port has a Maglev table.
fn has_maglev_frontends(service: &Service, port: &ServicePort, balancing: &Balancing) -> bool {
    let Service {
        cluster_ips,
        external_ips,
        load_balancer_ips,
        ..
    } = service;
    let kinds = [
        (FrontendKind::ClusterIp, !cluster_ips.is_empty()),
        (FrontendKind::NodePort, port.node_port.is_some()),
        (FrontendKind::ExternalIp, !external_ips.is_empty()),
        (FrontendKind::LoadBalancerIp, !load_balancer_ips.is_empty()),
    ];
    kinds
        .into_iter()
        .any(|(kind, has)| has && balancing.selection(service, kind) == Selection::Maglev)
}
