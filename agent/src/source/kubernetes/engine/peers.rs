//! All nodes of the cluster: direct server return has to know them.

use std::sync::Arc;

use shunt_model::Forwarding;

use crate::source::kubernetes::{
    engine::{Engine, take::follow},
    links::Link,
    objects::{node::Node, service::Service},
    watch::step::Step,
};

impl Engine {
    /// Whether all nodes are to be watched: from the first Service in mode dsr on.
    pub(in super::super) const fn wants_peers(&self) -> bool {
        self.links.peers.is_some()
    }

    /// Has all nodes watched if one of the Services is in mode dsr. The first event waits for them then:
    /// without them, packets of connections that there are would go on by SNAT.
    pub(super) fn look_for_dsr(&mut self, step: &Step<Service>) {
        let default = self.forwarding;
        let is_dsr = |service: &Service| {
            let says = service.forwarding.as_ref().ok().copied().flatten();
            says.unwrap_or(default) == Forwarding::Dsr
        };
        let wants = match step {
            Step::Listed(list) => list.objects.iter().any(is_dsr),
            Step::Applied(service) => is_dsr(service),
            Step::Deleted(_)
            | Step::Unreadable(_)
            | Step::Alive
            | Step::Lost(_)
            | Step::Absent(_) => false,
        };
        if wants {
            self.links.peers.get_or_insert_with(Link::default);
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
