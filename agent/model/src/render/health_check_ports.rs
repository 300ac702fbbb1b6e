//! The ports where nodes answer for the health of services.

use std::{
    collections::{BTreeSet, HashMap},
    num::NonZeroU16,
    sync::Arc,
};

use crate::service_id::ServiceId;

/// The ports of the nodes at which services' health checks are answered. A source reports them beside the events: no
/// packet is translated for them.
#[derive(Debug, Default)]
pub(crate) struct HealthCheckPorts {
    of: HashMap<Arc<ServiceId>, NonZeroU16>,
    at: BTreeSet<(NonZeroU16, Arc<ServiceId>)>,
}

impl HealthCheckPorts {
    /// A service has this port now, or none. Returns whether that is new.
    pub(super) fn set(&mut self, id: ServiceId, port: Option<NonZeroU16>) -> bool {
        if self.of.get(&id).copied() == port {
            return false;
        }
        if let Some((id, old)) = self.of.remove_entry(&id) {
            self.at.remove(&(old, id));
        }
        if let Some(port) = port {
            let id = Arc::new(id);
            self.at.insert((port, Arc::clone(&id)));
            self.of.insert(id, port);
        }
        true
    }

    /// The services whose port it is, each with its port; those of every port if none is given.
    pub(crate) fn at(
        &self,
        port: Option<NonZeroU16>,
    ) -> impl Iterator<Item = (NonZeroU16, &Arc<ServiceId>)> {
        // No name is empty, so this identity comes before all.
        let first = Arc::new(ServiceId::new("", ""));
        self.at
            .range((port.unwrap_or(NonZeroU16::MIN), first)..)
            .take_while(move |(known, _)| port.is_none_or(|port| port == *known))
            .map(|(port, id)| (*port, id))
    }

    /// These services have these ports, and no other has any. Returns whether that is new.
    pub(super) fn set_all(&mut self, ports: HashMap<ServiceId, NonZeroU16>) -> bool {
        let gone = self.of.keys().filter(|id| !ports.contains_key(&***id));
        let gone: Vec<ServiceId> = gone.map(|id| (**id).clone()).collect();
        let ports = ports.into_iter().map(|(id, port)| (id, Some(port)));
        let all = gone.into_iter().map(|id| (id, None)).chain(ports);
        all.fold(false, |is_new, (id, port)| self.set(id, port) || is_new)
    }
}
