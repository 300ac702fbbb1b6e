//! The events' view of frontends, as a dump has it.

use std::net::SocketAddr;

use shunt_api::view::{SplitBackend, SplitTarget};
use shunt_trace::{Frontend, Share};

use crate::frontends::InspectedFrontend;

/// Returns the events' view of a frontend; `None` if none leads to it.
pub(crate) fn frontend(frontend: &InspectedFrontend) -> Option<Frontend> {
    let view = frontend.view();
    let split = view.split.into_iter().flat_map(|split| split.backends);
    Some(Frontend {
        address: view.key.address,
        port: view.key.port,
        protocol: view.key.protocol.0,
        kind: view.kind?,
        service: view.service?,
        service_port: view.service_port?,
        policy: view.policy?.name().to_owned(),
        forwarding: view.forwarding?.name().to_owned(),
        selection: view.selection?.name().to_owned(),
        split: split.map(share).collect(),
    })
}

fn share(SplitBackend { target, weight }: SplitBackend) -> Share {
    let mut share = Share {
        service: None,
        address: None,
        weight,
    };
    match target {
        SplitTarget::Service { service, port } => share.service = Some((service, port)),
        SplitTarget::Address { ip, port } => share.address = Some(SocketAddr::new(ip, port)),
        SplitTarget::Invalid { .. } => {}
    }
    share
}
