//! Which services want which frontends, and since when.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use crate::{
    protocol::Protocol,
    render::{
        conflict::Conflict,
        frontend::{Frontend, FrontendKey, FrontendKind},
    },
    service::Service,
    service_id::ServiceId,
};

/// When a claim was first made; each is older than the next. Two claims never have the same age.
pub(super) type Age = u64;

/// What a service claims. A NodePort is claimed on all nodes at once, present and future: the
/// order of two services is the same on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    Address(FrontendKey),
    NodePort(u16, Protocol),
}

impl Claim {
    /// What `service` claims.
    pub(super) fn of_service(service: &Service) -> impl Iterator<Item = Self> {
        service.ports.iter().flat_map(|port| {
            let protocol = port.protocol;
            let own = service.addresses().map(move |address| {
                Self::Address(FrontendKey {
                    address,
                    port: port.port,
                    protocol,
                })
            });
            own.chain(
                port.node_port
                    .map(|number| Self::NodePort(number.get(), protocol)),
            )
        })
    }

    /// What a frontend stems from.
    pub(super) const fn of_frontend(key: &FrontendKey, frontend: &Frontend) -> Self {
        match frontend.kind {
            FrontendKind::NodePort => Self::NodePort(key.port, key.protocol),
            FrontendKind::ClusterIp | FrontendKind::ExternalIp | FrontendKind::LoadBalancerIp => {
                Self::Address(*key)
            }
        }
    }
}

/// For each frontend the services that claim it, the oldest first: that one has it.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<(FrontendKey, Age), Arc<ServiceId>>);

impl Claims {
    /// Enters a claim.
    pub(super) fn insert(&mut self, key: FrontendKey, age: Age, service: &Arc<ServiceId>) {
        self.0.insert((key, age), Arc::clone(service));
    }

    /// Takes a claim back.
    pub(super) fn remove(&mut self, key: FrontendKey, age: Age) {
        self.0.remove(&(key, age));
    }

    /// Who claims a frontend, the oldest first.
    pub(super) fn of(&self, key: FrontendKey) -> impl Iterator<Item = (Age, &Arc<ServiceId>)> {
        self.0
            .range((key, Age::MIN)..=(key, Age::MAX))
            .map(|((_, age), service)| (*age, service))
    }

    /// The claimed frontends at an address, each with its holder.
    pub(super) fn at(
        &self,
        address: IpAddr,
    ) -> impl Iterator<Item = (FrontendKey, &Arc<ServiceId>)> {
        let first = FrontendKey {
            address,
            port: 0,
            protocol: Protocol::Tcp,
        };
        let mut last = None;
        self.0
            .range((first, Age::MIN)..)
            .map(|((key, _), service)| (*key, service))
            .take_while(move |(key, _)| key.address == address)
            .filter(move |(key, _)| last.replace(*key) != Some(*key))
    }

    /// Every claimed frontend with its holder, sorted.
    pub(super) fn holders(&self) -> impl Iterator<Item = (FrontendKey, &Arc<ServiceId>)> {
        let mut last = None;
        self.0
            .iter()
            .map(|((key, _), service)| (*key, service))
            .filter(move |(key, _)| last.replace(*key) != Some(*key))
    }

    /// Every claim that waits for an older one to go.
    pub(super) fn conflicts(&self) -> impl Iterator<Item = Conflict> {
        let mut held = None;
        self.0
            .iter()
            .filter_map(move |((key, _), service)| match held {
                Some((held, holder)) if held == key => Some(Conflict {
                    key: *key,
                    holder: Arc::clone(holder),
                    waiting: Arc::clone(service),
                }),
                _ => {
                    held = Some((key, service));
                    None
                }
            })
    }
}
