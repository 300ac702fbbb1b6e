//! Gateways to instances of another datacenter.

use shunt_model::EndpointState;

use crate::instances::{
    frontend::Frontend,
    health::Standing,
    instance::{CheckStatus, Instance},
    tier::{Datacenter, OF_CONNECT, OF_PROTOCOL, OF_SERVICE, Tier, Via},
};

/// The kind of Consul's own gateways between datacenters.
const MESH_GATEWAY: &str = "mesh-gateway";

/// Returns whether a gateway leads to the instances of a tier.
pub(super) fn leads_to(gateway: &Instance, frontend: &Frontend, tier: &Tier) -> bool {
    match frontend.via {
        Via::Direct => false,
        Via::Mesh => {
            let Datacenter::Other(name) = &tier.datacenter else {
                return false;
            };
            &*gateway.kind == MESH_GATEWAY && gateway.datacenter == *name
        }
        Via::Gateway => {
            let says = |key: &str, value: &str| {
                gateway
                    .meta
                    .get(key)
                    .is_some_and(|said| said.eq_ignore_ascii_case(value))
            };
            gateway.kind.is_empty()
                && says(OF_SERVICE, &tier.service)
                && says(OF_PROTOCOL, frontend.protocol.name())
                && says(OF_CONNECT, if frontend.connect { "true" } else { "false" })
        }
    }
}

/// Returns the standing of a gateway by its own checks: only critical ones keep connections away, as in Consul.
pub(super) fn standing_of_gateway(gateway: &Instance) -> Standing {
    let worst = gateway.checks.iter().map(|check| check.status).max();
    if worst == Some(CheckStatus::Critical) {
        return (EndpointState::Terminating, 0);
    }
    let weight = gateway.weights.map_or(1, |weights| weights.passing);
    (EndpointState::Ready, weight.clamp(1, 65_535) as u32)
}
