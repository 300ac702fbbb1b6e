//! This node, and the addresses of NodePorts.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use ipnet::IpNet;
use shunt_runtime::ClusterNode;
use tracing::{error, info};

use crate::{
    engine::{Engine, take::follow},
    objects::{address::Address, node::Node, service::Service},
    store::Concerned,
    translate::view::NodeView,
    watch::step::Step,
};

impl Engine {
    /// Takes note of Nodes; all services are concerned if this one's zone or address is another.
    pub(super) fn node(&mut self, step: Step<Node>, is_first: bool) -> Vec<Concerned> {
        follow("Nodes", &mut self.links.nodes, &self.monitor, &step);
        let nodes = &mut self.store.nodes;
        match step {
            Step::Listed(list) => {
                nodes.retain(|name, _| list.keeps("", name));
                let list = list.objects.into_iter();
                nodes.extend(list.map(|node| (node.name.clone(), node)));
            }
            Step::Applied(node) => {
                nodes.insert(node.name.clone(), node);
            }
            Step::Deleted(node) => {
                nodes.remove(&node.name);
            }
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {
                return Vec::new();
            }
        }
        let concerned = self.look_at_node(is_first);
        self.place_node_ports();
        concerned
    }

    /// Takes the knowledge about this node from its Node. A Node that is removed changes nothing.
    fn look_at_node(&mut self, is_first: bool) -> Vec<Concerned> {
        let was_found = self.monitor.update(|state| state.node.found);
        let own = self.store.nodes.get(&*self.view.name);
        self.monitor.update(|state| {
            state.nodes = self.store.nodes.len() as u64;
            state.node.found = own.is_some();
            if let Some(own) = own {
                state.node = ClusterNode {
                    name: own.name.to_string(),
                    found: true,
                    zone: own.zone.as_deref().map(str::to_owned),
                    addresses: own.addresses.with(self.node_ip).iter().collect(),
                };
            }
        });
        let name = &self.view.name;
        let Some(own) = own else {
            if is_first || was_found {
                error!(
                    "the cluster has no Node `{name}`: no endpoint is taken for one of this node; \
                     give its name with --hostname-override"
                );
            }
            return self.look_at_host_ports();
        };
        self.reports.set_node_eligible(own.eligible);
        if !was_found {
            info!("this is the Node `{name}`");
        }
        let view = NodeView {
            name: Arc::clone(name),
            zone: own.zone.clone(),
            addresses: own.addresses.with(self.node_ip),
            service_cidrs: self.view.service_cidrs.clone(),
            host_ports: self.host_ports(),
            limits: self.view.limits,
        };
        let differs = |ranges: &Vec<IpNet>| *ranges != own.pod_cidrs && !own.pod_cidrs.is_empty();
        self.other_pod_cidrs = (self.pod_cidrs.as_ref())
            .is_some_and(differs)
            .then(|| own.pod_cidrs.clone());
        self.look_from(view)
    }

    /// Translates services by this view from now on: all of them, if it is another one.
    pub(super) fn look_from(&mut self, view: NodeView) -> Vec<Concerned> {
        if view == self.view {
            return Vec::new();
        }
        self.view = view;
        let all = self.store.by_age().into_iter();
        all.map(|id| Concerned::by(Arc::clone(id))).collect()
    }

    /// Sets the ranges of its Node by which this node's pods are known.
    pub(crate) fn pods_are_known_by(&mut self, pod_cidrs: Option<Vec<IpNet>>) {
        self.pod_cidrs = pod_cidrs;
    }

    /// Why the agent has to begin anew: the programs know this node's pods by ranges that are not
    /// its Node's any more. A Node that has none any more changes nothing.
    pub(crate) fn outdated(&self) -> Option<String> {
        let (known, others) = (self.pod_cidrs.as_ref()?, self.other_pod_cidrs.as_ref()?);
        let list = |ranges: &[IpNet]| {
            let ranges: Vec<_> = ranges.iter().map(ToString::to_string).collect();
            if ranges.is_empty() {
                "no range".to_owned()
            } else {
                ranges.join(", ")
            }
        };
        Some(format!(
            "this node's pods are told by {}, and its Node has {} now (spec.podCIDRs)",
            list(known),
            list(others)
        ))
    }

    /// Puts NodePorts on this node's addresses by the flag, and on the other nodes' primary ones.
    pub(super) fn place_node_ports(&mut self) {
        let mut own = self.addresses.of(&self.host_addresses, self.view.addresses);
        let primary: BTreeSet<IpAddr> = self.view.addresses.iter().collect();
        own.retain(|address| primary.contains(address) || !self.is_of_services(*address));
        let others = self.store.nodes.values();
        let others = others.filter(|node| *node.name != *self.view.name);
        let others = others.flat_map(|node| node.addresses.iter());
        self.reports.set_health_check_addresses(own.clone());
        self.node_ips = others.chain(own).collect();
    }

    /// Returns whether an address of this host's is a ClusterIP, or is kept for one.
    fn is_of_services(&self, address: IpAddr) -> bool {
        let mut ranges = self.view.service_cidrs.iter();
        ranges.any(|range| range.contains(&address)) || self.store.has_cluster_ip(address)
    }

    /// Returns whether NodePorts may have to be placed anew with this Service.
    pub(super) fn is_at_host(&self, service: &Service) -> bool {
        let mut addresses = service.cluster_ips.iter().filter_map(Address::ip);
        addresses.any(|address| self.host_addresses.contains(&address))
    }
}
