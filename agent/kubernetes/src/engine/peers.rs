//! All nodes of the cluster: direct server return has to know them.

use std::sync::Arc;

use shunt_model::{ClusterNodes, Forwarding, TrafficPolicy};

use crate::{
    engine::{Engine, take::follow},
    links::Link,
    objects::{node::Node, service::Service},
    watch::step::Step,
};

impl Engine {
    /// Returns whether all nodes are to be watched: while a Service hands packets to other nodes by direct server
    /// return.
    pub(crate) fn wants_peers(&self) -> bool {
        !self.dsr.is_empty()
    }

    /// Has all nodes watched if one of the Services needs them. The first event waits for them then: without them,
    /// packets of connections that there are would go on by SNAT.
    pub(super) fn look_for_dsr(&mut self, step: &Step<Service>) {
        let default = self.forwarding;
        let needs_nodes = |service: &Service| needs_nodes(service, default);
        match step {
            Step::Listed(list) => {
                self.dsr.retain(|id| list.keeps(&id.namespace, &id.name));
                let wanting = list.objects.iter().filter(|one| needs_nodes(one));
                self.dsr.extend(wanting.map(|one| Arc::clone(&one.id)));
            }
            Step::Applied(service) if needs_nodes(service) => {
                self.dsr.insert(Arc::clone(&service.id));
            }
            Step::Applied(service) | Step::Deleted(service) => {
                self.dsr.remove(&service.id);
            }
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {}
        }
        if self.wants_peers() {
            self.links.peers.get_or_insert_with(Link::default);
        }
    }

    /// All nodes are watched no more; they will be again if they are wanted again.
    pub(super) fn peers_are_gone(&mut self) {
        self.links.peers = self.wants_peers().then(Link::default);
        if self.links.peers.is_none() {
            self.peers = ClusterNodes::default();
        }
    }

    /// Takes note of all nodes.
    pub(super) fn peer(&mut self, step: Step<Node>) {
        let link = self.links.peers.get_or_insert_with(Link::default);
        follow("all Nodes", link, &self.monitor, &step);
        let nodes = &mut self.peers.0;
        let entry = |node: Node| (Arc::from(node.name), node.all_addresses);
        match step {
            Step::Listed(list) => {
                nodes.retain(|name, _| list.keeps("", name));
                nodes.extend(list.objects.into_iter().map(entry));
            }
            Step::Applied(node) => {
                let (name, addresses) = entry(node);
                nodes.insert(name, addresses);
            }
            Step::Deleted(node) => {
                nodes.remove(&*node.name);
            }
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {}
        }
    }
}

/// Returns whether the Service hands packets to other nodes by direct server return: those of an address of the
/// outside, for backends anywhere. Others never leave this node in an envelope, whatever their annotation is.
fn needs_nodes(service: &Service, default: Forwarding) -> bool {
    let says = service.forwarding.as_ref().ok().copied().flatten();
    let is_outside = !service.external_ips.is_empty()
        || !service.load_balancer_ips.is_empty()
        || service.ports.iter().any(|port| port.node_port.is_some());
    says.unwrap_or(default) == Forwarding::Dsr
        && is_outside
        && service.external_policy == TrafficPolicy::Cluster
}
