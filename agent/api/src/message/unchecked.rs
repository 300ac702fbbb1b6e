//! From messages to the unchecked form of events: a value that a JSON line could not even express is
//! refused here, as it is there.

use std::{collections::BTreeMap, fmt::Display};

use shunt_model::{
    EndpointState, EventError, Fault, Forwarding, Scope, Selection, SplitFrontends, SplitMode,
    TrafficPolicy, path_segment,
    unchecked::{Backend, Choice, Entries, Id, Port, Service, Snapshot, Split, SplitBackend, Text},
};

use crate::{
    message::{
        unchecked_field::{each, port_number, texts, transport, unknown},
        unchecked_workload::workloads,
    },
    proto,
};

/// The nodes of the cluster.
pub(super) fn nodes(nodes: &BTreeMap<String, proto::NodeAddresses>) -> Entries<'_, Vec<Text<'_>>> {
    nodes
        .iter()
        .map(|(name, proto::NodeAddresses { list })| (name.as_str().into(), texts(list)))
        .collect()
}

/// A snapshot, or a piece of one before which there were so many services and workloads.
pub(super) fn snapshot(
    message: &proto::Snapshot,
    (known_services, known_workloads): (usize, usize),
) -> Result<Snapshot<'_>, EventError> {
    let proto::Snapshot {
        node_ips,
        services: list,
        frontend_ifs,
        backend_ifs,
        service_cidrs,
        nodes: of_cluster,
        workloads: others,
    } = message;
    Ok(Snapshot {
        node_ips: texts(node_ips),
        services: services(list, known_services)?,
        frontend_ifs: texts(frontend_ifs),
        backend_ifs: texts(backend_ifs),
        service_cidrs: texts(service_cidrs),
        nodes: nodes(of_cluster),
        workloads: workloads(others, known_workloads)?,
    })
}

/// A service's identity.
pub(super) fn id(id: &proto::ServiceId) -> Id<'_> {
    let proto::ServiceId { namespace, name } = id;
    Id {
        namespace: namespace.as_str().into(),
        name: name.as_str().into(),
    }
}

/// A list of services, the first of which is `services[offset]`.
pub(super) fn services(
    list: &[proto::Service],
    offset: usize,
) -> Result<Vec<Service<'_>>, EventError> {
    list.iter()
        .enumerate()
        .map(|(index, message)| service(message, format_args!("services[{}]", offset + index)))
        .collect()
}

/// A service, which stands at `path` in its event.
pub(super) fn service(
    message: &proto::Service,
    path: impl Display,
) -> Result<Service<'_>, EventError> {
    let proto::Service {
        id: identity,
        cluster_ips,
        external_ips,
        load_balancer_ips,
        load_balancer_source_ranges,
        traffic_policy,
        internal_traffic_policy,
        session_affinity_timeout,
        ports,
        backends,
        selection,
        forwarding,
        masquerade,
        splits,
        opaque_ports,
        profile,
        hostnames,
    } = message;
    let identity = identity
        .as_ref()
        .ok_or_else(|| EventError::new(Fault::MissingField("id")).within(path))?;
    let of_service = |error: EventError| EventError {
        service: Some(format!("{}/{}", identity.namespace, identity.name)),
        ..error
    };
    Ok(Service {
        id: id(identity),
        cluster_ips: texts(cluster_ips),
        external_ips: texts(external_ips),
        load_balancer_ips: texts(load_balancer_ips),
        load_balancer_source_ranges: texts(load_balancer_source_ranges),
        traffic_policy: policy(*traffic_policy),
        internal_traffic_policy: policy(*internal_traffic_policy),
        session_affinity_timeout: *session_affinity_timeout,
        selection: selected(*selection),
        forwarding: forwarded(*forwarding),
        masquerade: *masquerade,
        opaque_ports: opaque_ports
            .as_ref()
            .map(|proto::PortRanges { list }| texts(list)),
        profile: profile.as_deref().map(Text::from),
        hostnames: entries(hostnames, |_, hostname| Ok(hostname.as_str().into()))?,
        ports: entries(ports, |name, message| {
            let path = format!("ports.{}", path_segment(name));
            port(message).map_err(|error| of_service(error.within(path)))
        })?,
        backends: entries(backends, |name, proto::Backends { list }| {
            let path = |index| format!("backends.{}[{index}]", path_segment(name));
            list.iter()
                .enumerate()
                .map(|(index, message)| {
                    let located = |error: EventError| of_service(error.within(path(index)));
                    backend(message).map_err(located)
                })
                .collect()
        })?,
        splits: entries(splits, |name, message| {
            let path = format!("splits.{}", path_segment(name));
            split(message).map_err(|error| of_service(error.within(path)))
        })?,
    })
}

fn entries<'a, M, V>(
    map: &'a BTreeMap<String, M>,
    value: impl Fn(&str, &'a M) -> Result<V, EventError>,
) -> Result<Entries<'a, V>, EventError> {
    map.iter()
        .map(|(name, message)| Ok((name.as_str().into(), value(name, message)?)))
        .collect()
}

fn port(message: &proto::Port) -> Result<Port<'_>, EventError> {
    let proto::Port {
        protocol,
        port,
        node_port,
    } = message;
    Ok(Port {
        protocol: transport(*protocol)?,
        port: port_number(*port, "port")?,
        node_port: port_number(*node_port, "node_port")?,
    })
}

fn backend(message: &proto::Backend) -> Result<Backend<'_>, EventError> {
    let proto::Backend {
        ip,
        port,
        weight,
        local,
        host_network: _,
        state,
        node,
        zone,
        scopes,
        serving,
    } = message;
    let state = match proto::EndpointState::try_from(*state) {
        Ok(proto::EndpointState::Unspecified) => None,
        Ok(proto::EndpointState::Ready) => Some(Choice::Known(EndpointState::Ready)),
        Ok(proto::EndpointState::Terminating) => Some(Choice::Known(EndpointState::Terminating)),
        Ok(proto::EndpointState::NotReady) => Some(Choice::Known(EndpointState::NotReady)),
        Err(_) => Some(unknown(*state)),
    };
    Ok(Backend {
        ip: ip.as_str().into(),
        port: port_number(*port, "port")?,
        weight: *weight,
        local: *local,
        state,
        serving: *serving,
        node: node.as_deref().map(Text::from),
        zone: zone.as_deref().map(Text::from),
        scopes: scopes
            .as_ref()
            .map(|proto::Scopes { list }| list.iter().copied().map(scope).collect()),
    })
}

fn split(message: &proto::Split) -> Result<Split<'_>, EventError> {
    let proto::Split {
        mode,
        frontends,
        backends,
    } = message;
    let mode = match proto::SplitMode::try_from(*mode) {
        Ok(proto::SplitMode::Available) => Choice::Known(SplitMode::Available),
        Ok(proto::SplitMode::Strict) => Choice::Known(SplitMode::Strict),
        Ok(proto::SplitMode::First) => Choice::Known(SplitMode::First),
        Ok(proto::SplitMode::Unspecified) => return Err(Fault::MissingField("mode").into()),
        Err(_) => unknown(*mode),
    };
    let frontends = match proto::SplitFrontends::try_from(*frontends) {
        Ok(proto::SplitFrontends::Unspecified) => None,
        Ok(proto::SplitFrontends::All) => Some(Choice::Known(SplitFrontends::All)),
        Ok(proto::SplitFrontends::ClusterIp) => Some(Choice::Known(SplitFrontends::ClusterIp)),
        Err(_) => Some(unknown(*frontends)),
    };
    Ok(Split {
        mode,
        frontends,
        backends: each(backends, 0, "backends", split_backend)?,
    })
}

fn split_backend(message: &proto::SplitBackend) -> Result<SplitBackend<'_>, EventError> {
    let proto::SplitBackend {
        service,
        ip,
        port,
        weight,
        invalid,
    } = message;
    // A target that is no backend has no port, and may show that.
    let port = port_number(*port, "port")?;
    let has_port = port > 0 || invalid.is_none();
    Ok(SplitBackend {
        service: service.as_ref().map(id),
        ip: ip.as_deref().map(Text::from),
        port: has_port.then_some(port),
        invalid: invalid.as_deref().map(Text::from),
        weight: *weight,
    })
}

fn scope<'a>(scope: i32) -> Choice<'a, Scope> {
    match proto::Scope::try_from(scope) {
        Ok(proto::Scope::Cluster) => Choice::Known(Scope::Cluster),
        Ok(proto::Scope::Local) => Choice::Known(Scope::Local),
        Ok(proto::Scope::Unspecified) | Err(_) => unknown(scope),
    }
}

fn policy<'a>(policy: i32) -> Option<Choice<'a, TrafficPolicy>> {
    match proto::TrafficPolicy::try_from(policy) {
        Ok(proto::TrafficPolicy::Unspecified) => None,
        Ok(proto::TrafficPolicy::Cluster) => Some(Choice::Known(TrafficPolicy::Cluster)),
        Ok(proto::TrafficPolicy::Local) => Some(Choice::Known(TrafficPolicy::Local)),
        Err(_) => Some(unknown(policy)),
    }
}

fn selected<'a>(selection: i32) -> Option<Choice<'a, Selection>> {
    match proto::Selection::try_from(selection) {
        Ok(proto::Selection::Unspecified) => None,
        Ok(proto::Selection::Weighted) => Some(Choice::Known(Selection::Weighted)),
        Ok(proto::Selection::Maglev) => Some(Choice::Known(Selection::Maglev)),
        Err(_) => Some(unknown(selection)),
    }
}

fn forwarded<'a>(forwarding: i32) -> Option<Choice<'a, Forwarding>> {
    match proto::Forwarding::try_from(forwarding) {
        Ok(proto::Forwarding::Unspecified) => None,
        Ok(proto::Forwarding::Snat) => Some(Choice::Known(Forwarding::Snat)),
        Ok(proto::Forwarding::Dsr) => Some(Choice::Known(Forwarding::Dsr)),
        Err(_) => Some(unknown(forwarding)),
    }
}
