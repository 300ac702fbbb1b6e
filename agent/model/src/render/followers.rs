//! The services with splits that name a service: its changes concern them too.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::{service::Service, service_id::ServiceId, split::SplitTarget};

/// By the service that is named, whether it exists or not.
#[derive(Debug, Default)]
pub(crate) struct Followers(HashMap<Arc<ServiceId>, BTreeSet<Arc<ServiceId>>>);

impl Followers {
    /// Returns the followers of a service, without itself.
    pub(crate) fn of(&self, id: &ServiceId) -> impl Iterator<Item = &Arc<ServiceId>> {
        self.0.get(id).into_iter().flatten()
    }

    /// Replaces what a service names.
    pub(super) fn replace(&mut self, old: Option<&Service>, new: Option<&Service>) {
        if let Some(service) = old {
            for named in names(service) {
                if let Some(followers) = self.0.get_mut(named) {
                    followers.remove(&service.id);
                    if followers.is_empty() {
                        self.0.remove(named);
                    }
                }
            }
        }
        if let Some(service) = new {
            for named in names(service) {
                let followers = self.0.entry(Arc::clone(named)).or_default();
                followers.insert(Arc::clone(&service.id));
            }
        }
    }
}

/// The other services that the service's splits name, each once.
pub(super) fn names(service: &Service) -> impl Iterator<Item = &Arc<ServiceId>> {
    let splits = service.ports.iter().filter_map(|port| port.split.as_ref());
    let backends = splits.flat_map(|split| &split.backends);
    let named = backends.filter_map(|backend| match &backend.target {
        SplitTarget::Service { id, port: _ } => Some(id),
        SplitTarget::Address { .. } | SplitTarget::Invalid { .. } => None,
    });
    let named: BTreeSet<_> = named.filter(|named| **named != service.id).collect();
    named.into_iter()
}
