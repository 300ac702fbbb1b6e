//! The backend sets of one service port: one for each address family and traffic policy.

use std::{net::IpAddr, sync::Arc};

use crate::{
    endpoint::{Endpoint, EndpointState},
    policy::TrafficPolicy,
    render::{
        error::RenderError,
        frontend::{Backend, BackendSet, Refusal},
    },
    service::{Service, ServicePort},
    service_id::ServiceId,
};

/// Makes each set when the first frontend asks for it, and shares it among all that use it.
pub(super) struct BackendSets<'a> {
    service: &'a Arc<ServiceId>,
    port: &'a ServicePort,
    affinity_timeout: u32,
    local_backend_weight: u32,
    v4: FamilySets,
    v6: FamilySets,
}

/// The sets of one address family.
#[derive(Default)]
struct FamilySets {
    cluster: Option<Arc<BackendSet>>,
    local: Option<Arc<BackendSet>>,
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
        local_backend_weight: u32,
    ) -> Result<Self, RenderError> {
        let affinity_timeout = service.session_affinity_timeout;
        let service = &service.id;
        let sets = Self {
            service,
            port,
            affinity_timeout,
            local_backend_weight,
            v4: FamilySets::default(),
            v6: FamilySets::default(),
        };
        for ipv4 in [true, false] {
            // Over all scopes: no set can exceed what fits here, and a change of the nodes, which
            // chooses among the sets, can never make a service wrong that was right.
            sets.listed(ipv4)
                .try_fold(0u32, |sum, endpoint| {
                    sum.checked_add(endpoint.weight.checked_mul(sets.factor(endpoint))?)
                })
                .ok_or_else(|| RenderError::WeightOverflow {
                    service: Arc::clone(service),
                    port: Arc::clone(&port.name),
                    local_backend_weight,
                })?;
        }
        Ok(sets)
    }

    /// What a frontend on `address` does if its own set has no usable backend.
    pub(super) fn refusal(&self, address: IpAddr) -> Refusal {
        let usable = |endpoint: &Endpoint| endpoint.weight > 0 && self.factor(endpoint) > 0;
        if self.listed(address.is_ipv4()).any(usable) {
            Refusal::Drop
        } else {
            Refusal::Reject
        }
    }

    /// The set that a frontend on `address` selects from under `policy`.
    pub(super) fn of(&mut self, address: IpAddr, policy: TrafficPolicy) -> Arc<BackendSet> {
        let ipv4 = address.is_ipv4();
        let sets = if ipv4 { &self.v4 } else { &self.v6 };
        let (wanted, other) = match policy {
            TrafficPolicy::Cluster => (&sets.cluster, &sets.local),
            TrafficPolicy::Local => (&sets.local, &sets.cluster),
        };
        if let Some(set) = wanted {
            return Arc::clone(set);
        }
        let set = self.build(ipv4, policy);
        let set = match other {
            Some(other) if **other == set => Arc::clone(other),
            _ => Arc::new(set),
        };
        let sets = if ipv4 { &mut self.v4 } else { &mut self.v6 };
        match policy {
            TrafficPolicy::Cluster => sets.cluster = Some(Arc::clone(&set)),
            TrafficPolicy::Local => sets.local = Some(Arc::clone(&set)),
        }
        set
    }

    fn build(&self, ipv4: bool, policy: TrafficPolicy) -> BackendSet {
        let in_scope = |endpoint: &&Endpoint| match policy {
            TrafficPolicy::Cluster => endpoint.scopes.cluster,
            TrafficPolicy::Local => endpoint.scopes.local,
        };
        let backend = |endpoint: &Endpoint| {
            let &Endpoint {
                ip,
                port,
                local,
                scopes,
                ..
            } = endpoint;
            // Does not saturate: `new` has added the products up.
            let weight = endpoint.weight.saturating_mul(self.factor(endpoint));
            Backend {
                ip,
                port,
                weight,
                local,
                scopes,
            }
        };
        let mut backends = Vec::with_capacity(self.listed(ipv4).filter(in_scope).count());
        backends.extend(self.listed(ipv4).filter(in_scope).map(backend));
        BackendSet {
            service: Arc::clone(self.service),
            port: Arc::clone(&self.port.name),
            affinity_timeout: self.affinity_timeout,
            backends,
        }
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

    /// What multiplies the endpoint's weight.
    const fn factor(&self, endpoint: &Endpoint) -> u32 {
        match endpoint.state {
            EndpointState::Ready if endpoint.local => self.local_backend_weight,
            EndpointState::Ready => 1,
            EndpointState::Terminating | EndpointState::NotReady => 0,
        }
    }
}
