//! A service as a message.

use std::{collections::BTreeMap, net::IpAddr};

use shunt_model::{
    ClusterNodes, Endpoint, EndpointState, Forwarding, Masquerade, PortRange, Protocol, Scopes,
    Selection, Service, ServiceId, ServicePort, Split, SplitBackend, SplitFrontends, SplitMode,
    SplitTarget, TrafficPolicy,
};

use crate::proto;

/// A service's identity.
pub(super) fn service_id(id: &ServiceId) -> proto::ServiceId {
    let ServiceId { namespace, name } = id;
    proto::ServiceId {
        namespace: namespace.to_string(),
        name: name.to_string(),
    }
}

/// A service.
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
        selection: selected,
        forwarding: forwarded,
        masquerade,
        opaque_ports,
        profile,
        hostnames,
        // Only a source knows it.
        seniority: _,
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
        selection: selected
            .map_or(proto::Selection::Unspecified, selection)
            .into(),
        forwarding: forwarded
            .map_or(proto::Forwarding::Unspecified, forwarding)
            .into(),
        masquerade: *masquerade,
        opaque_ports: opaque_ports.as_deref().map(port_ranges),
        profile: profile.as_deref().map(str::to_owned),
        hostnames: hostnames
            .iter()
            .flat_map(|hostnames| &**hostnames)
            .map(|(ip, hostname)| (ip.to_string(), hostname.to_string()))
            .collect(),
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
        splits: ports
            .iter()
            .filter_map(|port| Some((port.name.to_string(), split(port.split.as_deref()?))))
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
        split: _,
    } = port;
    proto::Port {
        protocol: protocol(*transport).into(),
        port: (*port).into(),
        node_port: node_port.map_or(0, |port| port.get().into()),
    }
}

fn split(split: &Split) -> proto::Split {
    let Split {
        mode,
        frontends,
        backends,
    } = split;
    proto::Split {
        mode: split_mode(*mode).into(),
        frontends: match frontends {
            SplitFrontends::All => proto::SplitFrontends::Unspecified,
            SplitFrontends::ClusterIp => proto::SplitFrontends::ClusterIp,
        }
        .into(),
        backends: backends.iter().map(split_backend).collect(),
    }
}

/// Returns the use of the share of a backend that cannot be used.
pub const fn split_mode(mode: SplitMode) -> proto::SplitMode {
    match mode {
        SplitMode::Available => proto::SplitMode::Available,
        SplitMode::Strict => proto::SplitMode::Strict,
        SplitMode::First => proto::SplitMode::First,
    }
}

/// A backend of a split.
pub fn split_backend(backend: &SplitBackend) -> proto::SplitBackend {
    let SplitBackend { target, weight } = backend;
    let (mut service, mut ip, mut number, mut invalid) = (None, None, 0, None);
    match target {
        SplitTarget::Service { id, port } => {
            service = Some(service_id(id));
            number = (*port).into();
        }
        SplitTarget::Address { ip: address, port } => {
            ip = Some(address.to_string());
            number = port.get().into();
        }
        SplitTarget::Invalid { reason } => invalid = Some(reason.to_string()),
    }
    proto::SplitBackend {
        service,
        ip,
        port: number,
        weight: (*weight != 1).then_some(*weight),
        invalid,
    }
}

fn backend(endpoint: &Endpoint) -> proto::Backend {
    let Endpoint {
        ip,
        port,
        weight,
        local,
        state,
        serving,
        scopes,
        node,
        zone,
        // No event has them.
        hints: _,
    } = endpoint;
    proto::Backend {
        ip: ip.to_string(),
        port: (*port).into(),
        weight: (*weight != 1).then_some(*weight),
        local: *local,
        state: match state {
            EndpointState::Ready => proto::EndpointState::Ready,
            EndpointState::Terminating => proto::EndpointState::Terminating,
            EndpointState::NotReady => proto::EndpointState::NotReady,
        }
        .into(),
        serving: *serving,
        node: node.as_deref().map(str::to_owned),
        scopes: (*scopes != Scopes::default_of(*local)).then(|| scope_list(*scopes)),
        zone: zone.as_deref().map(str::to_owned),
        // An event does not keep it.
        host_network: false,
    }
}

/// Ports, each as text.
pub(super) fn port_ranges(list: &[PortRange]) -> proto::PortRanges {
    proto::PortRanges { list: texts(list) }
}

/// Sets that an endpoint belongs to.
pub(super) fn scope_list(scopes: Scopes) -> proto::Scopes {
    let Scopes { cluster, local } = scopes;
    let list = [
        cluster.then_some(proto::Scope::Cluster),
        local.then_some(proto::Scope::Local),
    ];
    proto::Scopes {
        list: list.into_iter().flatten().map(i32::from).collect(),
    }
}

/// A transport protocol.
pub(super) const fn protocol(protocol: Protocol) -> proto::Protocol {
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

/// Returns the selection of a frontend.
pub const fn selection(selection: Selection) -> proto::Selection {
    match selection {
        Selection::Weighted => proto::Selection::Weighted,
        Selection::Maglev => proto::Selection::Maglev,
    }
}

/// Returns the path of packets from outside to backends on other nodes.
pub const fn forwarding(forwarding: Forwarding) -> proto::Forwarding {
    match forwarding {
        Forwarding::Snat => proto::Forwarding::Snat,
        Forwarding::Dsr => proto::Forwarding::Dsr,
    }
}

/// Returns the source of connections from outside to backends on this node.
pub const fn masquerade(masquerade: Masquerade) -> proto::Masquerade {
    match masquerade {
        Masquerade::Off => proto::Masquerade::Off,
        Masquerade::On => proto::Masquerade::On,
        Masquerade::NotInDsr => proto::Masquerade::NotInDsr,
    }
}

/// The nodes of the cluster.
pub(super) fn nodes(ClusterNodes(nodes): &ClusterNodes) -> BTreeMap<String, proto::NodeAddresses> {
    let addresses = |list: &[IpAddr]| proto::NodeAddresses { list: texts(list) };
    nodes
        .iter()
        .map(|(name, list)| (name.to_string(), addresses(list)))
        .collect()
}

/// Each item as text.
pub(super) fn texts<T: ToString>(list: impl IntoIterator<Item = T>) -> Vec<String> {
    list.into_iter().map(|item| item.to_string()).collect()
}
