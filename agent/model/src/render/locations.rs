//! The nodes of addresses, as direct server return has to know them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use crate::{cluster_nodes::ClusterNodes, render::entry::Entry, service_id::ServiceId};

/// The nodes of addresses after an event: of a node's own address the address itself, of an endpoint's
/// elsewhere, if its service is in mode dsr, the address at which its node is reached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Locations {
    /// By the address; `None`: its node is not known any more, or not needed.
    pub nodes: BTreeMap<IpAddr, Option<IpAddr>>,
    /// True if these are all there are. Otherwise every other one stays as it is.
    pub are_all: bool,
}

/// The nodes that services in mode dsr name for addresses elsewhere.
type Named = BTreeMap<IpAddr, BTreeSet<(Arc<ServiceId>, Arc<str>)>>;

/// The known nodes of addresses.
#[derive(Debug, Default)]
pub(crate) struct Atlas {
    named: Named,
    /// The addresses of all nodes, with the nodes' names.
    own: BTreeMap<IpAddr, Arc<str>>,
}

impl Atlas {
    /// Replaces the claims of a service.
    pub(super) fn replace(&mut self, old: Option<&Entry>, new: Option<&Entry>) {
        for (address, id, node) in old.into_iter().flat_map(claims) {
            if let Some(claims) = self.named.get_mut(&address) {
                claims.remove(&(id, node));
                if claims.is_empty() {
                    self.named.remove(&address);
                }
            }
        }
        add(&mut self.named, new);
    }

    /// Takes note of who the nodes are.
    pub(super) fn set_nodes(&mut self, nodes: &ClusterNodes) {
        let nodes = nodes.0.iter();
        let own = nodes.flat_map(|(name, list)| list.iter().map(|own| (*own, Arc::clone(name))));
        self.own = own.collect();
    }

    /// The name of the node whose own address it is.
    pub(crate) fn name_of(&self, address: IpAddr) -> Option<&Arc<str>> {
        self.own.get(&address)
    }

    /// The address of the node where this address is.
    pub(super) fn node_of(&self, address: IpAddr, nodes: &ClusterNodes) -> Option<IpAddr> {
        self.resolve(address, nodes, |_| true, &Named::new())
    }

    /// Returns the locations of the addresses that the `concerned` services have, or had, once they have become these.
    pub(super) fn after<'a>(
        &self,
        concerned: impl Iterator<Item = (&'a Arc<ServiceId>, Option<&'a Entry>, Option<&'a Entry>)>,
        nodes: &ClusterNodes,
    ) -> Locations {
        let (mut addresses, mut ids) = (BTreeSet::new(), BTreeSet::new());
        let mut named = Named::new();
        for (id, old, new) in concerned {
            ids.insert(id);
            addresses.extend(
                old.into_iter()
                    .flat_map(claims)
                    .map(|(address, ..)| address),
            );
            add(&mut named, new);
        }
        addresses.extend(named.keys());
        let stays = |id: &Arc<ServiceId>| !ids.contains(id);
        let changes = addresses.into_iter().filter_map(|address| {
            let after = self.resolve(address, nodes, stays, &named);
            (after != self.node_of(address, nodes)).then_some((address, after))
        });
        Locations {
            nodes: changes.collect(),
            are_all: false,
        }
    }

    /// Returns the node's address by the claims of services that stay, and by `more`. A node's own address is its,
    /// whatever an endpoint claims; of several services, the first whose node is known is believed.
    fn resolve(
        &self,
        address: IpAddr,
        nodes: &ClusterNodes,
        stays: impl Fn(&Arc<ServiceId>) -> bool,
        more: &Named,
    ) -> Option<IpAddr> {
        if self.own.contains_key(&address) {
            return Some(address);
        }
        let of = |named: &'_ Named| named.get(&address).into_iter().flatten().cloned().collect();
        let (kept, new): (Vec<_>, Vec<_>) = (of(&self.named), of(more));
        let kept = kept.into_iter().filter(|(id, _)| stays(id));
        kept.chain(new)
            .filter_map(|(id, node)| Some((id, nodes.address_of(&node, address)?)))
            .min()
            .map(|(_, node)| node)
    }
}

/// All there are, if these are the services and the nodes.
pub(super) fn all<'a>(entries: impl Iterator<Item = &'a Entry>, nodes: &ClusterNodes) -> Locations {
    let mut atlas = Atlas::default();
    atlas.set_nodes(nodes);
    for entry in entries {
        add(&mut atlas.named, Some(entry));
    }
    let addresses: BTreeSet<&IpAddr> = atlas.named.keys().chain(atlas.own.keys()).collect();
    let located = addresses
        .into_iter()
        .filter_map(|address| Some((*address, Some(atlas.node_of(*address, nodes)?))));
    Locations {
        nodes: located.collect(),
        are_all: true,
    }
}

/// Adds the claims of a service.
fn add(named: &mut Named, entry: Option<&Entry>) {
    for (address, id, node) in entry.into_iter().flat_map(claims) {
        named.entry(address).or_default().insert((id, node));
    }
}

/// Returns the nodes that a service names for its endpoints elsewhere, if it is in mode dsr.
fn claims(entry: &Entry) -> impl Iterator<Item = (IpAddr, Arc<ServiceId>, Arc<str>)> {
    let endpoints = entry.has_dsr().then(|| entry.endpoints());
    endpoints
        .into_iter()
        .flatten()
        .filter(|endpoint| !endpoint.local)
        .filter_map(|endpoint| {
            let node = endpoint.node.as_ref()?;
            let id = &entry.service.id;
            Some((endpoint.ip, Arc::clone(id), Arc::clone(node)))
        })
}
