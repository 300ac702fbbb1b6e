//! Services of which a source knows nothing yet at the first Resync.

use std::collections::{BTreeMap, HashMap};

use shunt_model::{Backend, Endpoint, EndpointState, FrontendKey, Hints, RendererEvent, Service};
use tracing::warn;

use crate::agent::Agent;

impl Agent {
    /// Adds these services to the first Resync, with the endpoints that an earlier agent left in the kernel, so that
    /// nothing changes for their clients. One that it left nothing of is not added. Other events stay as they are:
    /// after a Resync a service has what events give it.
    pub(crate) fn with_undecided(
        &self,
        event: RendererEvent,
        undecided: Vec<Service>,
    ) -> RendererEvent {
        let mut snapshot = match event {
            RendererEvent::Resync(snapshot)
                if !undecided.is_empty() && !self.renderer.is_synced() =>
            {
                snapshot
            }
            other => return other,
        };
        let live = match self.datapath.live() {
            Ok(live) => live,
            Err(error) => {
                warn!(
                    "services that are not known yet are removed: the tables cannot be read: {error}"
                );
                return RendererEvent::Resync(snapshot);
            }
        };
        let live: HashMap<FrontendKey, &[Backend]> = live
            .iter()
            .filter_map(|frontend| Some((frontend.key.frontend()?, &*frontend.backends)))
            .collect();
        let left = undecided.into_iter();
        snapshot
            .services
            .extend(left.filter_map(|service| as_left(service, &live)));
        RendererEvent::Resync(snapshot)
    }
}

/// The service with the endpoints that its frontends have; `None`: it has none of them.
fn as_left(mut service: Service, live: &HashMap<FrontendKey, &[Backend]>) -> Option<Service> {
    let addresses: Vec<_> = service.addresses().collect();
    let mut is_left = false;
    for port in &mut service.ports {
        let keys = addresses.iter().map(|address| FrontendKey {
            address: *address,
            port: port.port,
            protocol: port.protocol,
        });
        let found: Vec<&[Backend]> = keys.filter_map(|key| live.get(&key).copied()).collect();
        is_left |= !found.is_empty();
        let endpoints = found.into_iter().flatten().map(endpoint);
        let endpoints: BTreeMap<_, _> = endpoints
            .map(|endpoint| ((endpoint.ip, endpoint.port), endpoint))
            .collect();
        port.endpoints = endpoints.into_values().collect();
    }
    is_left.then_some(service)
}

fn endpoint(backend: &Backend) -> Endpoint {
    let Backend {
        ip,
        port,
        weight,
        local,
        scopes,
    } = *backend;
    Endpoint {
        ip,
        port,
        weight,
        local,
        state: EndpointState::Ready,
        serving: false,
        scopes,
        hints: Hints::default(),
        node: None,
        zone: None,
    }
}
