//! Which services want which frontends, and since when.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use crate::{
    protocol::Protocol,
    render::{
        conflict::Conflict,
        frontend::{Frontend, FrontendKey, FrontendKind},
    },
    seniority::Seniority,
    service::Service,
    service_id::ServiceId,
};

/// How old a claim is: as its service, and as its first making where that is not known or the same.
/// Each is older than the next. Two claims never have the same age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Age {
    service: Seniority,
    /// The claims are counted as they are made.
    pub(super) number: u64,
}

impl Age {
    /// Older than every other.
    const MIN: Self = Self {
        service: Seniority {
            created: i64::MIN,
            tie: u64::MIN,
        },
        number: u64::MIN,
    };

    /// Younger than every other.
    pub(super) const MAX: Self = Self {
        service: UNKNOWN,
        number: u64::MAX,
    };

    /// That of a claim with this number of a service that is so old.
    pub(super) fn new(service: Option<Seniority>, number: u64) -> Self {
        Self {
            service: service.unwrap_or(UNKNOWN),
            number,
        }
    }
}

/// That of a service of which it is not known.
const UNKNOWN: Seniority = Seniority {
    created: i64::MAX,
    tie: u64::MAX,
};

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
pub(crate) struct Claims(BTreeMap<(FrontendKey, Age), Arc<ServiceId>>);

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
    pub(crate) fn of(&self, key: FrontendKey) -> impl Iterator<Item = (Age, &Arc<ServiceId>)> {
        self.0
            .range((key, Age::MIN)..=(key, Age::MAX))
            .map(|((_, age), service)| (*age, service))
    }

    /// The claimed frontends at an address, each with its holder.
    pub(super) fn at(
        &self,
        address: IpAddr,
    ) -> impl Iterator<Item = (FrontendKey, &Arc<ServiceId>)> {
        let mut last = None;
        self.all_at(address)
            .filter(move |(key, _)| last.replace(*key) != Some(*key))
    }

    /// All claims to frontends at an address, sorted by frontend, the oldest of each first.
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
        self.0
            .range((first, Age::MIN)..)
            .map(|((key, _), service)| (*key, service))
            .take_while(move |(key, _)| key.address == address)
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
