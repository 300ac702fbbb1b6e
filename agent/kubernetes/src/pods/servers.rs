//! linkerd's Servers, by which ports of workloads are opaque.

use std::collections::{BTreeMap, BTreeSet};

use shunt_model::{PortRange, Workload};

use crate::{
    objects::{
        labels::Labels,
        server::{OpaquePort, Server},
    },
    watch::step::Step,
};

/// The Servers that make ports opaque, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Servers(BTreeMap<Box<str>, BTreeMap<Box<str>, OpaquePort>>);

impl Servers {
    /// Takes note of Servers. Returns the namespaces whose workloads they concern.
    pub(super) fn take(&mut self, step: Step<Server>) -> BTreeSet<Box<str>> {
        let mut concerned = BTreeSet::new();
        match step {
            Step::Listed(list) => {
                for (namespace, servers) in &mut self.0 {
                    let before = servers.len();
                    servers.retain(|name, _| list.keeps(namespace, name));
                    if servers.len() < before {
                        concerned.insert(namespace.clone());
                    }
                }
                for server in list.objects {
                    concerned.extend(self.set(server));
                }
            }
            Step::Applied(server) => concerned.extend(self.set(server)),
            Step::Deleted(server) => concerned.extend(self.set(Server {
                opaque: None,
                ..server
            })),
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {}
        }
        self.0.retain(|_, servers| !servers.is_empty());
        concerned
    }

    /// Returns the namespace, if that changes something there.
    fn set(&mut self, server: Server) -> Option<Box<str>> {
        let Server { id, opaque } = server;
        let changes = match opaque {
            Some(port) => {
                let servers = self.0.entry(id.namespace.clone()).or_default();
                servers.insert(id.name, port.clone()) != Some(port)
            }
            None => {
                let servers = self.0.get_mut(&id.namespace);
                servers.is_some_and(|servers| servers.remove(&id.name).is_some())
            }
        };
        changes.then_some(id.namespace)
    }

    /// Returns the ports of a workload that are opaque by Servers, in order.
    pub(super) fn opaque_ports(&self, workload: &Workload, labels: &Labels) -> Box<[PortRange]> {
        let servers = self.0.get(&workload.id.namespace);
        let servers = servers.into_iter().flat_map(BTreeMap::values);
        let ports: BTreeSet<PortRange> =
            servers.flat_map(|port| port.of(workload, labels)).collect();
        ports.into_iter().collect()
    }
}
