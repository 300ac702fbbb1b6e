//! Workloads at addresses that are no service's.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    num::NonZeroU16,
    sync::Arc,
};

use crate::{
    protocol::Protocol,
    workload::{Workload, WorkloadId, WorkloadKind, WorkloadUpdate},
};

/// Workloads by what they are and by where they answer.
#[derive(Debug, Default)]
pub(crate) struct Residents {
    known: BTreeMap<Arc<WorkloadId>, Arc<Workload>>,
    /// Workloads that answer at an address, at any port of it. Sorted by phase and identity: of several with one
    /// address, the first has it.
    at: HashMap<IpAddr, Vec<Arc<Workload>>>,
}

impl Residents {
    /// The workloads of a snapshot, which are all.
    pub(super) fn of(workloads: Vec<Arc<Workload>>) -> Self {
        let mut residents = Self::default();
        for workload in workloads {
            residents.put(workload);
        }
        residents
    }

    /// Takes note of what is new, and of what is gone.
    pub(super) fn update(&mut self, update: WorkloadUpdate) {
        let WorkloadUpdate { workloads, gone } = update;
        for id in gone {
            self.remove(&id);
        }
        for workload in workloads {
            self.put(workload);
        }
    }

    fn put(&mut self, workload: Arc<Workload>) {
        self.remove(&workload.id);
        for address in addresses(&workload) {
            let list = self.at.entry(address).or_default();
            let order = |one: &Workload| (one.phase, Arc::clone(&one.id));
            let place = list.partition_point(|known| order(known) < order(&workload));
            list.insert(place, Arc::clone(&workload));
        }
        self.known.insert(Arc::clone(&workload.id), workload);
    }

    fn remove(&mut self, id: &WorkloadId) {
        let Some(old) = self.known.remove(id) else {
            return;
        };
        for address in addresses(&old) {
            if let Some(list) = self.at.get_mut(&address) {
                list.retain(|known| known.id != old.id);
                if list.is_empty() {
                    self.at.remove(&address);
                }
            }
        }
    }

    /// All workloads.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Workload>> {
        self.known.values()
    }

    /// The workload of this identity.
    pub(crate) fn known(&self, id: &WorkloadId) -> Option<&Arc<Workload>> {
        self.known.get(id)
    }

    /// Returns the workloads that have `address` of their own: a pod at every port, another workload at those that it
    /// declares. The one that has it first; `None` stands for any port or protocol.
    pub(crate) fn at_own(
        &self,
        address: IpAddr,
        port: Option<NonZeroU16>,
        protocol: Option<Protocol>,
    ) -> impl Iterator<Item = &Arc<Workload>> {
        self.at_any(address).filter(move |workload| {
            let declares = || {
                let mut ports = workload.ports.iter();
                ports.any(|own| {
                    port.is_none_or(|port| port == own.port)
                        && protocol.is_none_or(|protocol| protocol == own.protocol)
                })
            };
            workload.ips.contains(&address)
                && match workload.id.kind {
                    WorkloadKind::Pod => true,
                    WorkloadKind::ExternalWorkload => declares(),
                }
        })
    }

    /// Returns the workloads that answer at `address` of their node, at this port and of this protocol.
    pub(crate) fn at_host_port(
        &self,
        address: IpAddr,
        port: Option<NonZeroU16>,
        protocol: Option<Protocol>,
    ) -> impl Iterator<Item = &Arc<Workload>> {
        self.at_any(address).filter(move |workload| {
            let mut ports = workload.host_ports.iter();
            ports.any(|own| {
                own.ip == address
                    && port.is_none_or(|port| port == own.port)
                    && protocol.is_none_or(|protocol| protocol == own.protocol)
            })
        })
    }

    fn at_any(&self, address: IpAddr) -> impl Iterator<Item = &Arc<Workload>> {
        self.at.get(&address).into_iter().flatten()
    }
}

/// Returns the addresses where a workload answers, each once, sorted.
pub(crate) fn addresses(workload: &Workload) -> Vec<IpAddr> {
    let host = workload.host_ports.iter().map(|port| port.ip);
    let mut addresses: Vec<_> = workload.ips.iter().copied().chain(host).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}
