//! All objects that are known, and the services that a change of one concerns.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    mem,
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;
use shunt_model::ServiceId;
use shunt_runtime::{IpFamily, Trigger};

use crate::{
    objects::{
        address::Address, endpoint_slice::EndpointSlice, interner::Interner, node::Node,
        service::Service, service_cidr::ServiceCidr,
    },
    watch::step::List,
};

/// Services by name, each with its slices; slices without a Service wait for it.
#[derive(Debug, Default)]
pub(super) struct Store {
    services: HashMap<Arc<ServiceId>, Known>,
    /// The service of each slice that has one.
    owners: HashMap<ServiceId, Arc<ServiceId>>,
    pub(super) nodes: BTreeMap<Box<str>, Node>,
    service_cidrs: BTreeMap<Box<str>, Vec<IpNet>>,
    counts: Counts,
    interner: Interner,
}

/// Knowledge about a service.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) service: Option<Service>,
    /// By name, so that their order is not that of their arrival.
    pub(super) slices: BTreeMap<Box<str>, EndpointSlice>,
    /// Triggers of slices that came before the Service, by their names.
    early: BTreeMap<Box<str>, Trigger>,
}

/// A service that a change concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Concerned {
    pub(super) id: Arc<ServiceId>,
    /// True if its endpoints have changed, and not the Service.
    pub(super) by_endpoints: bool,
    /// Triggers of the change, as far as they are known.
    pub(super) triggers: Vec<Trigger>,
}

impl Concerned {
    pub(super) const fn by(id: Arc<ServiceId>) -> Self {
        Self {
            id,
            by_endpoints: false,
            triggers: Vec::new(),
        }
    }
}

/// Numbers of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) services: usize,
    pub(super) endpoint_slices: usize,
    pub(super) endpoints: usize,
}

impl Store {
    /// Returns the knowledge about a service.
    pub(super) fn known(&self, id: &ServiceId) -> Option<&Known> {
        self.services.get(id)
    }

    /// Returns whether a Service has this ClusterIP.
    pub(super) fn has_cluster_ip(&self, address: IpAddr) -> bool {
        let services = self.services.values();
        let mut services = services.filter_map(|known| known.service.as_ref());
        services.any(|service| service.cluster_ips.contains(&Address::Ip(address)))
    }

    /// All services that there are, the oldest first.
    pub(super) fn by_age(&self) -> Vec<&Arc<ServiceId>> {
        let services = self.services.iter();
        let mut found: Vec<_> = services
            .filter_map(|(id, known)| Some((known.service.as_ref()?, id)))
            .collect();
        found.sort_by_key(|(service, id)| (service.created, &*service.uid, &***id));
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// Sorts services by their age, those that are gone first: what one of them had, another may
    /// have now.
    pub(super) fn sort_by_age(&self, list: &mut [Concerned]) {
        list.sort_by_cached_key(|concerned| {
            let known = self.services.get(&concerned.id);
            let service = known.and_then(|known| known.service.as_ref());
            (
                service.map(|service| (service.created, service.uid.clone())),
                Arc::clone(&concerned.id),
            )
        });
    }

    /// Takes note of a Service; returns `None` if it is the same as before.
    pub(super) fn put_service(&mut self, service: Service) -> Option<Concerned> {
        let id = Arc::clone(&service.id);
        let known = self.services.entry(Arc::clone(&id)).or_default();
        if known.service.as_ref() == Some(&service) {
            return None;
        }
        if known.service.replace(service).is_none() {
            self.counts.services += 1;
        }
        // Services and slices come by watches of their own: either may be the first.
        Some(Concerned {
            triggers: mem::take(&mut known.early).into_values().collect(),
            ..Concerned::by(id)
        })
    }

    /// Forgets a Service.
    pub(super) fn remove_service(&mut self, id: &Arc<ServiceId>) -> Option<Concerned> {
        let known = self.services.get_mut(id)?;
        known.service.take()?;
        self.counts.services -= 1;
        self.drop_if_empty(id);
        Some(Concerned::by(Arc::clone(id)))
    }

    /// These are all Services that there are.
    pub(super) fn list_services(&mut self, list: List<Service>) -> Vec<Concerned> {
        let present = list.objects.iter().map(|service| &*service.id);
        let present: HashSet<&ServiceId> = present.collect();
        let gone: Vec<_> = self
            .services
            .iter()
            .filter(|(id, known)| known.service.is_some() && !present.contains(&***id))
            .filter(|(id, _)| !list.keeps(&id.namespace, &id.name))
            .map(|(id, _)| Arc::clone(id))
            .collect();
        let gone = gone.iter().filter_map(|id| self.remove_service(id));
        let mut concerned: Vec<_> = gone.collect();
        concerned.extend(
            list.objects
                .into_iter()
                .filter_map(|service| self.put_service(service)),
        );
        concerned
    }

    /// Takes note of a slice. Two services are concerned if it was another's before.
    pub(super) fn put_slice(&mut self, mut slice: EndpointSlice) -> Vec<Concerned> {
        self.interner.share(&mut slice);
        let old_owner = self.owners.get(&slice.id).map(Arc::clone);
        let mut concerned = Vec::new();
        if let Some(owner) = &old_owner
            && slice.service.as_ref() != Some(&**owner)
        {
            concerned.extend(self.remove_slice(&slice.id));
        }
        let Some(service) = &slice.service else {
            return concerned;
        };
        let owner = match old_owner {
            Some(owner) if *owner == *service => owner,
            _ => {
                let owner = match self.services.get_key_value(service) {
                    Some((id, _)) => Arc::clone(id),
                    None => Arc::new(service.clone()),
                };
                self.owners.insert(slice.id.clone(), Arc::clone(&owner));
                owner
            }
        };
        let known = self.services.entry(Arc::clone(&owner)).or_default();
        let old = known.slices.get(&slice.id.name);
        if old == Some(&slice) {
            return concerned;
        }
        let first = slice.endpoints.first();
        let family = first.map_or(IpFamily::V4, |first| IpFamily::of(first.ip));
        let trigger = slice
            .triggered
            .filter(|_| old.and_then(|old| old.triggered) != slice.triggered)
            .map(|at| Trigger { family, at });
        let name = slice.id.name.clone();
        let mut triggers = Vec::new();
        match trigger {
            Some(trigger) if known.service.is_none() => {
                known.early.insert(name.clone(), trigger);
            }
            trigger => triggers.extend(trigger),
        }
        self.counts.endpoints += slice.endpoints.len();
        match known.slices.insert(name, slice) {
            Some(old) => self.counts.endpoints -= old.endpoints.len(),
            None => self.counts.endpoint_slices += 1,
        }
        concerned.push(Concerned {
            id: owner,
            by_endpoints: true,
            triggers,
        });
        concerned
    }

    /// Forgets a slice.
    pub(super) fn remove_slice(&mut self, id: &ServiceId) -> Option<Concerned> {
        let owner = self.owners.remove(id)?;
        let known = self.services.get_mut(&owner)?;
        known.early.remove(&id.name);
        let slice = known.slices.remove(&id.name)?;
        self.counts.endpoints -= slice.endpoints.len();
        self.counts.endpoint_slices -= 1;
        self.drop_if_empty(&owner);
        Some(Concerned {
            by_endpoints: true,
            ..Concerned::by(owner)
        })
    }

    /// These are all slices that there are.
    pub(super) fn list_slices(&mut self, list: List<EndpointSlice>) -> Vec<Concerned> {
        let present: HashSet<&ServiceId> = list.objects.iter().map(|slice| &slice.id).collect();
        let gone = self.owners.keys().filter(|id| !present.contains(id));
        let gone = gone.filter(|id| !list.keeps(&id.namespace, &id.name));
        let gone: Vec<_> = gone.cloned().collect();
        let mut concerned: Vec<_> = gone.iter().filter_map(|id| self.remove_slice(id)).collect();
        for slice in list.objects {
            concerned.extend(self.put_slice(slice));
        }
        self.interner.prune();
        concerned
    }

    /// Takes note of a ServiceCIDR.
    pub(super) fn put_service_cidr(&mut self, cidr: ServiceCidr) {
        self.service_cidrs.insert(cidr.name, cidr.cidrs);
    }

    /// Forgets a ServiceCIDR.
    pub(super) fn remove_service_cidr(&mut self, name: &str) {
        self.service_cidrs.remove(name);
    }

    /// These are all ServiceCIDRs that there are.
    pub(super) fn list_service_cidrs(&mut self, list: List<ServiceCidr>) {
        self.service_cidrs.retain(|name, _| list.keeps("", name));
        let list = list.objects.into_iter();
        self.service_cidrs
            .extend(list.map(|cidr| (cidr.name, cidr.cidrs)));
    }

    /// Returns the ranges of all ServiceCIDRs, but for one of all addresses, which means nothing.
    /// One that stands in two objects is there until both are gone.
    pub(super) fn service_cidrs(&self) -> BTreeSet<IpNet> {
        let cidrs = self.service_cidrs.values().flatten();
        cidrs
            .filter(|cidr| cidr.prefix_len() > 0)
            .copied()
            .collect()
    }

    /// Returns the numbers of objects.
    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }

    fn drop_if_empty(&mut self, id: &Arc<ServiceId>) {
        let is_empty = |known: &Known| known.service.is_none() && known.slices.is_empty();
        if self.services.get(id).is_some_and(is_empty) {
            self.services.remove(id);
        }
    }
}
