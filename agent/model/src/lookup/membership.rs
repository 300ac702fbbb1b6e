//! The services that have an address behind them.

use std::sync::Arc;

use crate::{
    lookup::{
        answer::Membership,
        endpoint::conditions,
        query::{Query, Subject},
    },
    render::state::State,
};

/// The service ports that have the address as an endpoint, sorted by service and port name. A service
/// that was asked for by its name is no endpoint.
pub(super) fn memberships(state: &State, query: &Query) -> Vec<Membership> {
    let Subject::Address(address) = query.subject else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for id in state.members.of(address) {
        let ports = state.services.get(id).map(|entry| &entry.service.ports);
        for port in ports.into_iter().flatten() {
            // Sorted by address and port.
            let first = port.endpoints.partition_point(|known| known.ip < address);
            let own = port.endpoints.iter().skip(first);
            let own = own.take_while(|endpoint| endpoint.ip == address);
            for endpoint in own.filter(|endpoint| query.covers(endpoint.port, port.protocol)) {
                let (ready, serving, terminating) = conditions(endpoint);
                found.push(Membership {
                    service: Arc::clone(id),
                    port_name: Arc::clone(&port.name),
                    port: port.port,
                    protocol: port.protocol,
                    endpoint_port: endpoint.port,
                    ready,
                    serving,
                    terminating,
                });
            }
        }
    }
    found
}
