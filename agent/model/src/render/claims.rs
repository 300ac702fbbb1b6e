//! Claims of services to frontends, and their age.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

use crate::{
    protocol::Protocol,
    render::{
        age::Age,
        conflict::Conflict,
        frontend::{Frontend, FrontendKey, FrontendKind},
    },
    service::Service,
    service_id::ServiceId,
};

/// The claim of a service. A NodePort is claimed on all nodes at once, present and future: the
/// order of two services is the same on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    Address(FrontendKey),
    NodePort(u16, Protocol),
}

impl Claim {
    /// Returns the claims of `service`.
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

    /// Returns true if it is a claim of `service` to its own ClusterIP.
    pub(super) fn is_to_cluster_ip(&self, service: &Service) -> bool {
        match self {
            Self::Address(key) => service.cluster_ips.contains(&key.address),
            Self::NodePort(..) => false,
        }
    }

    /// Returns the claim that a frontend stems from.
    pub(super) const fn of_frontend(key: &FrontendKey, frontend: &Frontend) -> Self {
        match frontend.kind {
            FrontendKind::NodePort => Self::NodePort(key.port, key.protocol),
            FrontendKind::ClusterIp | FrontendKind::ExternalIp | FrontendKind::LoadBalancerIp => {
                Self::Address(*key)
            }
        }
    }
}

/// For each frontend the services that claim it, in the order of [`Age`]: the first one has it.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    all: BTreeMap<(FrontendKey, Age), Arc<ServiceId>>,
    /// Frontends with several claims.
    contended: BTreeSet<FrontendKey>,
    /// Numbers of frontends, of IPv4 and of IPv6.
    frontends: [usize; 2],
}

impl Claims {
    /// Enters a claim.
    pub(super) fn insert(&mut self, key: FrontendKey, age: Age, service: &Arc<ServiceId>) {
        let is_claimed = self.of(key).next().is_some();
        if self.all.insert((key, age), Arc::clone(service)).is_some() {
            return;
        }
        if is_claimed {
            self.contended.insert(key);
        } else {
            self.frontends[family(&key)] += 1;
        }
    }

    /// Takes a claim back.
    pub(super) fn remove(&mut self, key: FrontendKey, age: Age) {
        if self.all.remove(&(key, age)).is_none() {
            return;
        }
        let left = self.of(key).take(2).count();
        if left == 0 {
            self.frontends[family(&key)] -= 1;
        } else if left == 1 {
            self.contended.remove(&key);
        }
    }

    /// Returns the number of frontends that are claimed, of IPv4 and of IPv6.
    pub(super) const fn frontends(&self) -> [usize; 2] {
        self.frontends
    }

    /// The services that claim a frontend, its holder first.
    pub(crate) fn of(&self, key: FrontendKey) -> impl Iterator<Item = (Age, &Arc<ServiceId>)> {
        self.all
            .range((key, Age::MIN)..=(key, Age::MAX))
            .map(|((_, age), service)| (*age, service))
    }

    /// The claimed frontends at an address, each with its holder.
    pub(crate) fn at(
        &self,
        address: IpAddr,
    ) -> impl Iterator<Item = (FrontendKey, &Arc<ServiceId>)> {
        let mut last = None;
        self.all_at(address)
            .filter(move |(key, _)| last.replace(*key) != Some(*key))
    }

    /// All claims to frontends at an address, sorted by frontend, the holder of each first.
    pub(crate) fn all_at(
        &self,
        address: IpAddr,
    ) -> impl Iterator<Item = (FrontendKey, &Arc<ServiceId>)> {
        // Port 0 is none, so this key comes before all.
        let first = FrontendKey {
            address,
            port: 0,
            protocol: Protocol::Tcp,
        };
        self.all
            .range((first, Age::MIN)..)
            .map(|((key, _), service)| (*key, service))
            .take_while(move |(key, _)| key.address == address)
    }

    /// The claimed frontends behind `after`, or all of them, each with its holder, sorted.
    pub(super) fn holders(
        &self,
        after: Option<FrontendKey>,
    ) -> impl Iterator<Item = (FrontendKey, &Arc<ServiceId>)> {
        let mut last = None;
        let start = after.map_or(Unbounded, |key| Excluded((key, Age::MAX)));
        self.all
            .range((start, Unbounded))
            .map(|((key, _), service)| (*key, service))
            .filter(move |(key, _)| last.replace(*key) != Some(*key))
    }

    /// Every claim that waits for another one to go.
    pub(super) fn conflicts(&self) -> impl Iterator<Item = Conflict> {
        self.contended.iter().flat_map(|key| {
            let mut claims = self.of(*key);
            let holder = claims.next();
            claims.filter_map(move |(age, service)| {
                let (first, holder) = holder?;
                Some(Conflict::new(*key, (holder, first), (service, age)))
            })
        })
    }
}

/// The place of a frontend's family.
const fn family(key: &FrontendKey) -> usize {
    match key.address {
        IpAddr::V4(_) => 0,
        IpAddr::V6(_) => 1,
    }
}
