//! Workloads are judged by their addresses.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use ipnet::IpNet;
use shunt_model::ServiceId;
use tracing::{info, warn};

use crate::{
    controllers::workloads::{
        allowed::{Ranges, Refusal},
        service::Service,
        verdicts::Refused,
        work::WorkloadWork,
    },
    links::Link,
    objects::{
        endpoint_slice::EndpointSlice, external_workload::WorkloadKey, node::Node,
        service_cidr::ServiceCidr,
    },
    watch::step::Step,
};

/// The Service of the API server itself.
const API_SERVER: (&str, &str) = ("default", "kubernetes");

/// Has the log show what a missing right costs, once.
fn follow<T>(link: &mut Link, name: &str, unknown: &str, step: &Step<T>) {
    let is_first = !link.is_complete;
    link.follow(name, step);
    if is_first && matches!(step, Step::Absent(_)) {
        warn!("ExternalWorkloads may name {unknown}, as {name} cannot be listed");
    }
}

fn hosts(addresses: impl IntoIterator<Item = IpAddr>) -> Vec<IpNet> {
    addresses.into_iter().map(IpNet::from).collect()
}

impl WorkloadWork {
    /// Returns true if it is known which addresses are the cluster's own, as far as that can be had.
    pub(super) const fn knows_ranges(&self) -> bool {
        self.services_link.is_complete && self.judge_links.are_complete()
    }

    /// Takes note of Nodes. Returns true if others are refused now than before.
    pub(super) fn take_nodes(&mut self, step: &Step<Node>) -> bool {
        let unknown = "the addresses of Nodes and of their pods";
        follow(&mut self.judge_links.nodes, "Nodes", unknown, step);
        let own = self.allowed.take(Refusal::Node, step, |node| Ranges {
            namespace: "",
            name: &node.name,
            ranges: hosts(node.all_addresses.iter().copied()),
        });
        let pods = self.allowed.take(Refusal::Pods, step, |node| Ranges {
            namespace: "",
            name: &node.name,
            ranges: node.pod_cidrs.clone(),
        });
        own || pods
    }

    /// Takes note of ranges of ClusterIPs. Returns true if others are refused now than before.
    pub(super) fn take_service_cidrs(&mut self, step: &Step<ServiceCidr>) -> bool {
        let unknown = "addresses that become ClusterIPs later";
        let link = &mut self.judge_links.service_cidrs;
        follow(link, "ServiceCIDRs", unknown, step);
        self.allowed
            .take(Refusal::ServiceCidr, step, |cidr| Ranges {
                namespace: "",
                name: &cidr.name,
                ranges: cidr.cidrs.clone(),
            })
    }

    /// Takes note of where the API server answers. Returns true if others are refused now than before.
    pub(super) fn take_api_server(&mut self, step: &Step<EndpointSlice>) -> bool {
        let link = &mut self.judge_links.api_server;
        link.follow("EndpointSlices of the API server", step);
        self.allowed.take(Refusal::ApiServer, step, |slice| {
            let service = slice.service.as_ref();
            let service = service.map(|id| (&*id.namespace, &*id.name));
            let endpoints = slice.endpoints.iter().map(|endpoint| endpoint.ip);
            let endpoints = endpoints.filter(|_| service == Some(API_SERVER));
            Ranges {
                namespace: &slice.id.namespace,
                name: &slice.id.name,
                ranges: hosts(endpoints),
            }
        })
    }

    /// Takes note of ClusterIPs. Returns true if others are refused now than before.
    pub(super) fn take_cluster_ips(&mut self, step: &Step<Service>) -> bool {
        self.allowed
            .take(Refusal::ClusterIp, step, |service| Ranges {
                namespace: &service.id.namespace,
                name: &service.id.name,
                ranges: hosts(service.cluster_ips.iter().copied()),
            })
    }

    /// Judges these workloads. Returns the Services that select one of which something else holds now.
    pub(super) fn judge(&mut self, keys: &BTreeSet<Arc<WorkloadKey>>) -> BTreeSet<ServiceId> {
        let mut concerned = BTreeSet::new();
        for key in keys {
            if self.judge_one(key) {
                concerned.extend(self.store.selecting_workload(key));
            }
        }
        concerned
    }

    /// Judges all workloads, and adds those to `changed` of which something else holds now. Returns the
    /// Services that select these.
    pub(super) fn judge_all(
        &mut self,
        changed: &mut BTreeSet<Arc<WorkloadKey>>,
    ) -> BTreeSet<ServiceId> {
        let mut concerned = BTreeSet::new();
        for key in self.workload_keys() {
            if self.judge_one(&key) {
                concerned.extend(self.store.selecting_workload(&key));
                changed.insert(key);
            }
        }
        concerned
    }

    /// Returns true if something else holds now.
    fn judge_one(&mut self, key: &Arc<WorkloadKey>) -> bool {
        let found = self.store.workload(key).and_then(|workload| {
            let ips = workload.body.as_ref().ok()?.ips.iter().copied();
            let mut refused = ips.filter_map(|address| {
                let why = self.allowed.refusal(address)?;
                Some(Refused { address, why })
            });
            refused.next()
        });
        let old = match found {
            Some(found) => self.refused.insert(Arc::clone(key), found),
            None => self.refused.remove(key),
        };
        if old.is_some() && found.is_none() && self.store.workload(key).is_some() {
            info!("{key}: no address of it is refused any more");
        }
        old != found
    }
}
