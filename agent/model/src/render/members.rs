//! The services that have an address behind them.

use std::{cmp::Ordering, collections::BTreeSet, net::IpAddr, sync::Arc};

use crate::{service::Service, service_id::ServiceId, split::SplitTarget};

/// The services that have an address as an endpoint, whatever the endpoint can do, or as a backend of a split.
#[derive(Debug, Default)]
pub(crate) struct Members(BTreeSet<(IpAddr, Arc<ServiceId>)>);

impl Members {
    /// Replaces what is known of the service `id`. Only what differs is touched.
    pub(super) fn replace(
        &mut self,
        id: &Arc<ServiceId>,
        old: Option<&Service>,
        new: Option<&Service>,
    ) {
        let (old, new) = (addresses(old), addresses(new));
        let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old.cmp(new),
            };
            match order {
                Ordering::Less => {
                    if let Some(gone) = old.next() {
                        self.0.remove(&(*gone, Arc::clone(id)));
                    }
                }
                Ordering::Greater => {
                    if let Some(added) = new.next() {
                        self.0.insert((*added, Arc::clone(id)));
                    }
                }
                Ordering::Equal => {
                    old.next();
                    new.next();
                }
            }
        }
    }

    /// The services that have `address` behind them, sorted.
    pub(crate) fn of(&self, address: IpAddr) -> impl Iterator<Item = &Arc<ServiceId>> {
        // No name is empty, so this identity comes before all.
        let first = Arc::new(ServiceId::new("", ""));
        self.0
            .range((address, first)..)
            .take_while(move |(known, _)| *known == address)
            .map(|(_, id)| id)
    }
}

/// The addresses of a service's endpoints, and those that its splits name, sorted, each once.
fn addresses(service: Option<&Service>) -> Vec<IpAddr> {
    let ports = service.map_or(&[][..], |service| &service.ports);
    let endpoints = ports.iter().flat_map(|port| &port.endpoints);
    let splits = ports.iter().filter_map(|port| port.split.as_ref());
    let backends = splits.flat_map(|split| &split.backends);
    let named = backends.filter_map(|backend| match backend.target {
        SplitTarget::Address { ip, port: _ } => Some(ip),
        SplitTarget::Service { .. } | SplitTarget::Invalid { .. } => None,
    });
    let mut addresses: Vec<_> = endpoints.map(|endpoint| endpoint.ip).chain(named).collect();
    // A single port without a split has them in their order.
    if !addresses.is_sorted() {
        addresses.sort_unstable();
    }
    addresses.dedup();
    addresses
}
