//! The endpoints behind the backends of a split.

use std::{borrow::Cow, cell::RefCell, collections::HashMap, net::IpAddr, ptr, sync::Arc};

use crate::{
    endpoint::{Endpoint, EndpointState, Hint, Hints, Scopes},
    protocol::Protocol,
    service::{Service, ServicePort},
    service_id::ServiceId,
    split::SplitTarget,
};

/// Finds the other services that a split may name.
pub type Others<'a> = dyn Fn(&ServiceId) -> Option<&'a Arc<Service>> + 'a;

/// The ports of services by number and protocol, as far as they were looked for: one split may name many, and
/// each port of a service may have one.
#[derive(Default)]
pub(super) struct PortIndex<'a>(RefCell<HashMap<*const Service, Ports<'a>>>);

type Ports<'a> = HashMap<(u16, Protocol), &'a ServicePort>;

impl<'a> PortIndex<'a> {
    fn port(
        &self,
        service: &'a Service,
        number: u16,
        protocol: Protocol,
    ) -> Option<&'a ServicePort> {
        let mut known = self.0.borrow_mut();
        let ports = known.entry(ptr::from_ref(service)).or_insert_with(|| {
            let ports = service.ports.iter();
            ports
                .map(|port| ((port.port, port.protocol), port))
                .collect()
        });
        ports.get(&(number, protocol)).copied()
    }
}

/// The endpoints of a backend of a split.
pub(super) enum Behind<'a> {
    /// A service port's own endpoints.
    Endpoints(&'a [Endpoint]),
    /// A single one.
    Single(Endpoint),
    /// Nothing, or nothing yet.
    Nothing,
}

impl<'a> Behind<'a> {
    /// Returns the endpoints behind the target of a split that `service` has for this protocol.
    pub(super) fn of(
        target: &SplitTarget,
        service: &'a Service,
        protocol: Protocol,
        (others, index): (&Others<'a>, &PortIndex<'a>),
    ) -> Self {
        match target {
            SplitTarget::Service { id, port } => {
                let named = if *id == service.id {
                    Some(service)
                } else {
                    others(id).map(|named| &**named)
                };
                named
                    .and_then(|named| index.port(named, *port, protocol))
                    .map_or(Self::Nothing, |port| Self::Endpoints(&port.endpoints))
            }
            SplitTarget::Address { ip, port } => Self::Single(single(*ip, port.get())),
            SplitTarget::Invalid { reason: _ } => Self::Nothing,
        }
    }

    /// The endpoints.
    pub(super) fn endpoints(self) -> impl Iterator<Item = Cow<'a, Endpoint>> {
        let (list, single) = match self {
            Self::Endpoints(list) => (list, None),
            Self::Single(endpoint) => (&[][..], Some(endpoint)),
            Self::Nothing => (&[][..], None),
        };
        let list = list.iter().map(Cow::Borrowed);
        list.chain(single.map(Cow::Owned))
    }
}

/// The endpoint at an address of which nothing else is known: it is elsewhere.
const fn single(ip: IpAddr, port: u16) -> Endpoint {
    Endpoint {
        ip,
        port,
        weight: 1,
        local: false,
        state: EndpointState::Ready,
        serving: false,
        scopes: Scopes::default_of(false),
        hints: Hints {
            node: Hint::None,
            zone: Hint::None,
        },
        node: None,
        zone: None,
    }
}

/// Every endpoint to which connections to this port of `service` may go: its own, and those that its
/// split borrows.
pub(super) fn reachable<'a>(
    service: &'a Service,
    port: &'a ServicePort,
    others: &Others<'a>,
    index: &PortIndex<'a>,
) -> impl Iterator<Item = Cow<'a, Endpoint>> + use<'a> {
    let backends = port.split.iter().flat_map(|split| &split.backends);
    let borrowed: Vec<_> = backends
        .flat_map(|backend| {
            let known = (others, index);
            Behind::of(&backend.target, service, port.protocol, known).endpoints()
        })
        .collect();
    port.endpoints.iter().map(Cow::Borrowed).chain(borrowed)
}
