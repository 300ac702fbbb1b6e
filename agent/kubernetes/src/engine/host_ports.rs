//! Ports of nodes at which the cluster itself listens.

use shunt_model::{Protocol, ServiceId};

use crate::{
    engine::{Engine, take::heard},
    objects::endpoint_slice::EndpointSlice,
    store::Concerned,
    translate::view::{Daemon, HostPorts, NodeView},
    watch::step::Step,
};

/// The Service of the API server itself.
const API_SERVER: (&str, &str) = ("default", "kubernetes");

impl Engine {
    /// Returns true for the Service of the API server.
    pub(super) fn is_api_server(service: &ServiceId) -> bool {
        (&*service.namespace, &*service.name) == API_SERVER
    }

    /// Takes note of slices of the API server. Nothing waits for them.
    pub(super) fn api_server(&mut self, step: Step<EndpointSlice>) -> Vec<Concerned> {
        heard(&self.monitor, &step);
        let own = |slice: &EndpointSlice| slice.service.as_ref().is_some_and(Self::is_api_server);
        let known = &mut self.api_server;
        match step {
            Step::Listed(list) => {
                known.retain(|id, _| list.keeps(&id.namespace, &id.name));
                let list = list.objects.into_iter().filter(own);
                known.extend(list.map(|slice| (slice.id.clone(), slice)));
            }
            Step::Applied(slice) if own(&slice) => {
                known.insert(slice.id.clone(), slice);
            }
            Step::Applied(slice) | Step::Deleted(slice) => {
                known.remove(&slice.id);
            }
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {}
        }
        self.look_at_host_ports()
    }

    /// Translates all services anew if others of their external addresses are refused than before.
    pub(super) fn look_at_host_ports(&mut self) -> Vec<Concerned> {
        let host_ports = self.host_ports();
        if host_ports == self.view.host_ports {
            return Vec::new();
        }
        self.look_from(NodeView {
            host_ports,
            ..self.view.clone()
        })
    }

    /// Returns the TCP ports at which kubelets and the API server listen, of the nodes that are known: this one, and
    /// all of them if NodePorts of other nodes are translated.
    pub(super) fn host_ports(&self) -> HostPorts {
        let mut found = HostPorts::new();
        if !self.protects_host_ports {
            return found;
        }
        for node in self.store.nodes.values() {
            let given = self.node_ip.filter(|_| *node.name == *self.view.name);
            for address in node.all_addresses.iter().copied().chain(given) {
                found.insert((address, node.kubelet_port), Daemon::Kubelet);
            }
        }
        let (namespace, name) = API_SERVER;
        let of_service = self.store.known(&ServiceId::new(namespace, name));
        let of_service = of_service.into_iter().flat_map(|one| one.slices.values());
        for slice in of_service.chain(self.api_server.values()) {
            let ports = slice.ports.iter();
            for port in ports.filter(|port| port.protocol == Protocol::Tcp) {
                for endpoint in &slice.endpoints {
                    found.insert((endpoint.ip, port.port.get()), Daemon::ApiServer);
                }
            }
        }
        found
    }
}
