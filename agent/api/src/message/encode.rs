//! From an event to a message.

use shunt_model::{
    Endpoint, EndpointState, NodePortUpdate, Protocol, RendererEvent, Scopes, Service, ServiceId,
    ServicePort, TrafficPolicy,
};

use crate::{
    message::pieces,
    proto::{
        self, AddServiceRequest, DeleteServiceRequest, SnapshotPiece, StreamRequest,
        UpdateLocalBackendIfsRequest, UpdateLocalFrontendIfsRequest, UpdateNodePortServicesRequest,
        UpdateServiceRequest, stream_request,
    },
};

/// The messages that say `event` in a stream: one, or for a large Resync several.
pub fn encode(event: RendererEvent) -> Box<dyn Iterator<Item = StreamRequest> + Send> {
    use stream_request::Event;
    let one = |event| {
        let event = Some(event);
        Box::new(std::iter::once(StreamRequest { event }))
    };
    match event {
        RendererEvent::Resync(snapshot) => {
            let mut pieces = pieces(snapshot).peekable();
            Box::new(std::iter::from_fn(move || {
                let snapshot = Some(pieces.next()?);
                let more = pieces.peek().is_some();
                let event = Some(Event::Resync(SnapshotPiece { snapshot, more }));
                Some(StreamRequest { event })
            }))
        }
        RendererEvent::AddService(new) => one(Event::AddService(AddServiceRequest {
            service: Some(service(&new)),
        })),
        RendererEvent::UpdateService(new) => one(Event::UpdateService(UpdateServiceRequest {
            service: Some(service(&new)),
        })),
        RendererEvent::DeleteService(id) => one(Event::DeleteService(DeleteServiceRequest {
            id: Some(service_id(&id)),
        })),
        RendererEvent::UpdateNodePortServices(NodePortUpdate { node_ips, services }) => one(
            Event::UpdateNodePortServices(UpdateNodePortServicesRequest {
                node_ips: texts(node_ips),
                services: services.iter().map(service).collect(),
            }),
        ),
        RendererEvent::UpdateLocalFrontendIfs(new) => one(Event::UpdateLocalFrontendIfs(
            UpdateLocalFrontendIfsRequest { new: texts(new) },
        )),
        RendererEvent::UpdateLocalBackendIfs(new) => {
            one(Event::UpdateLocalBackendIfs(UpdateLocalBackendIfsRequest {
                new: texts(new),
            }))
        }
    }
}

fn service_id(id: &ServiceId) -> proto::ServiceId {
    let ServiceId { namespace, name } = id;
    proto::ServiceId {
        namespace: namespace.to_string(),
        name: name.to_string(),
    }
}

pub(super) fn service(service: &Service) -> proto::Service {
    let Service {
        id,
        cluster_ips,
        external_ips,
        load_balancer_ips,
        load_balancer_source_ranges,
        traffic_policy,
        internal_traffic_policy,
        session_affinity_timeout,
        ports,
    } = service;
    let backends = ports.iter().filter(|port| !port.endpoints.is_empty());
    proto::Service {
        id: Some(service_id(id)),
        cluster_ips: texts(cluster_ips),
        external_ips: texts(external_ips),
        load_balancer_ips: texts(load_balancer_ips),
        load_balancer_source_ranges: texts(load_balancer_source_ranges),
        traffic_policy: policy(*traffic_policy).into(),
        internal_traffic_policy: policy(*internal_traffic_policy).into(),
        session_affinity_timeout: *session_affinity_timeout,
        ports: ports
            .iter()
            .map(|own| (own.name.to_string(), port(own)))
            .collect(),
        backends: backends
            .map(|port| {
                let list = port.endpoints.iter().map(backend).collect();
                (port.name.to_string(), proto::Backends { list })
            })
            .collect(),
    }
}

fn port(port: &ServicePort) -> proto::Port {
    let ServicePort {
        name: _,
        protocol: transport,
        port,
        node_port,
        endpoints: _,
    } = port;
    proto::Port {
        protocol: protocol(*transport).into(),
        port: (*port).into(),
        node_port: node_port.map_or(0, |port| port.get().into()),
    }
}

fn backend(endpoint: &Endpoint) -> proto::Backend {
    let Endpoint {
        ip,
        port,
        weight,
        local,
        host_network,
        state,
        scopes,
        node,
        zone,
    } = endpoint;
    let default_scopes = Scopes {
        cluster: true,
        local: *local,
    };
    proto::Backend {
        ip: ip.to_string(),
        port: (*port).into(),
        weight: (*weight != 1).then_some(*weight),
        local: *local,
        host_network: *host_network,
        state: match state {
            EndpointState::Ready => proto::EndpointState::Ready,
            EndpointState::Terminating => proto::EndpointState::Terminating,
            EndpointState::NotReady => proto::EndpointState::NotReady,
        }
        .into(),
        node: node.as_deref().map(str::to_owned),
        zone: zone.as_deref().map(str::to_owned),
        scopes: (*scopes != default_scopes).then(|| scope_list(*scopes)),
    }
}

fn scope_list(scopes: Scopes) -> proto::Scopes {
    let Scopes { cluster, local } = scopes;
    let list = [
        cluster.then_some(proto::Scope::Cluster),
        local.then_some(proto::Scope::Local),
    ];
    proto::Scopes {
        list: list.into_iter().flatten().map(i32::from).collect(),
    }
}

/// A protocol by its number.
pub const fn protocol(protocol: Protocol) -> proto::Protocol {
    match protocol {
        Protocol::Tcp => proto::Protocol::Tcp,
        Protocol::Udp => proto::Protocol::Udp,
        Protocol::Sctp => proto::Protocol::Sctp,
    }
}

/// A traffic policy.
pub const fn policy(policy: TrafficPolicy) -> proto::TrafficPolicy {
    match policy {
        TrafficPolicy::Cluster => proto::TrafficPolicy::Cluster,
        TrafficPolicy::Local => proto::TrafficPolicy::Local,
    }
}

fn texts<T: ToString>(list: impl IntoIterator<Item = T>) -> Vec<String> {
    list.into_iter().map(|item| item.to_string()).collect()
}
