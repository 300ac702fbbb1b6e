//! Objects that claim services, in the order of their age.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::SystemTime,
};

use shunt_model::ServiceId;

use crate::{
    objects::{route::Route, service_profile::ServiceProfile, traffic_split::TrafficSplit},
    watch::step::Step,
};

/// An object that has settings for services.
pub(super) trait Claim: PartialEq {
    /// Its own identity.
    fn id(&self) -> &ServiceId;
    /// Returns the time at which it was made.
    fn created(&self) -> SystemTime;
    /// The services that it claims.
    fn services(&self) -> BTreeSet<ServiceId>;
}

impl Claim for Route {
    fn id(&self) -> &ServiceId {
        &self.id
    }

    fn created(&self) -> SystemTime {
        self.created
    }

    /// Returns those of its own namespace: for others it is not accepted.
    fn services(&self) -> BTreeSet<ServiceId> {
        let namespace = &self.id.namespace;
        let services = self.parents.iter().map(|parent| parent.service(namespace));
        services
            .filter(|service| service.namespace == *namespace)
            .collect()
    }
}

impl Claim for TrafficSplit {
    fn id(&self) -> &ServiceId {
        &self.id
    }

    fn created(&self) -> SystemTime {
        self.created
    }

    fn services(&self) -> BTreeSet<ServiceId> {
        self.root.iter().cloned().collect()
    }
}

impl Claim for ServiceProfile {
    fn id(&self) -> &ServiceId {
        &self.id
    }

    fn created(&self) -> SystemTime {
        self.created
    }

    fn services(&self) -> BTreeSet<ServiceId> {
        self.service.iter().cloned().collect()
    }
}

/// All objects of a kind, by name and by the services that they claim.
#[derive(Debug)]
pub(super) struct Claims<T> {
    all: BTreeMap<ServiceId, Arc<T>>,
    /// The oldest first; of equally old ones, the first by namespace and name.
    by_service: HashMap<ServiceId, Vec<Arc<T>>>,
}

impl<T> Default for Claims<T> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            by_service: HashMap::new(),
        }
    }
}

impl<T: Claim> Claims<T> {
    /// All of them, by name.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<T>> {
        self.all.values()
    }

    /// Returns the objects that claim this service, the oldest first.
    pub(super) fn of(&self, service: &ServiceId) -> &[Arc<T>] {
        self.by_service.get(service).map_or(&[], Vec::as_slice)
    }

    /// Takes note of the news, and returns the services that it concerns.
    pub(super) fn take(&mut self, step: Step<T>) -> BTreeSet<ServiceId> {
        let mut concerned = BTreeSet::new();
        match step {
            Step::Listed(list) => {
                let present: BTreeSet<&ServiceId> = list.objects.iter().map(Claim::id).collect();
                let gone = self.all.keys().filter(|id| !present.contains(id));
                let gone = gone.filter(|id| !list.keeps(&id.namespace, &id.name));
                let gone: Vec<ServiceId> = gone.cloned().collect();
                for id in gone {
                    concerned.extend(self.remove(&id));
                }
                for object in list.objects {
                    concerned.extend(self.put(object));
                }
            }
            Step::Applied(object) => concerned.extend(self.put(object)),
            Step::Deleted(object) => concerned.extend(self.remove(object.id())),
            // What was known stays.
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {}
        }
        concerned
    }

    fn put(&mut self, object: T) -> BTreeSet<ServiceId> {
        let known = self.all.get(object.id());
        if known.is_some_and(|known| **known == object) {
            return BTreeSet::new();
        }
        let mut concerned = self.remove(object.id());
        let object = Arc::new(object);
        for service in object.services() {
            let claims = self.by_service.entry(service.clone()).or_default();
            let age = |object: &T| (object.created(), object.id().clone());
            let place = claims.partition_point(|other| age(other) < age(&object));
            claims.insert(place, Arc::clone(&object));
            concerned.insert(service);
        }
        self.all.insert(object.id().clone(), object);
        concerned
    }

    fn remove(&mut self, id: &ServiceId) -> BTreeSet<ServiceId> {
        let Some(object) = self.all.remove(id) else {
            return BTreeSet::new();
        };
        let services = object.services();
        for service in &services {
            if let Some(claims) = self.by_service.get_mut(service) {
                claims.retain(|claim| !Arc::ptr_eq(claim, &object));
                if claims.is_empty() {
                    self.by_service.remove(service);
                }
            }
        }
        services
    }
}
