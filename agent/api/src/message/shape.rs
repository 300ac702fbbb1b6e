//! From messages to the shape of JSON: what a JSON line could not even say is refused here, as
//! it is there.

use shunt_model::{
    EventError, Fault, path_segment as segment,
    unchecked::{Backend, Id, Port, Service, entries::Entries, object::Object, text::Text},
};

use crate::proto;

/// A list of texts.
pub(super) fn texts(list: &[String]) -> Vec<Text<'_>> {
    list.iter().map(|text| text.as_str().into()).collect()
}

/// A service's identity.
pub(super) fn id(id: &proto::ServiceId) -> Object<Id<'_>> {
    let proto::ServiceId { namespace, name } = id;
    Object(Id {
        namespace: namespace.as_str().into(),
        name: name.as_str().into(),
    })
}

/// A list of services, the first of which is `services[offset]`.
pub(super) fn services(
    list: &[proto::Service],
    offset: usize,
) -> Result<Vec<Object<Service<'_>>>, EventError> {
    list.iter()
        .enumerate()
        .map(|(index, message)| {
            service(message, format_args!("services[{}]", offset + index)).map(Object)
        })
        .collect()
}

/// A service, which stands at `path` in its event.
pub(super) fn service(
    message: &proto::Service,
    path: impl std::fmt::Display,
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
        ports: entries(ports, |name, message| {
            let path = format!("ports.{}", segment(name));
            port(message).map_err(|error| of_service(error.within(path)))
        })?,
        backends: entries(backends, |name, proto::Backends { list }| {
            let path = |index| format!("backends.{}[{index}]", segment(name));
            list.iter()
                .enumerate()
                .map(|(index, message)| {
                    let located = |error: EventError| of_service(error.within(path(index)));
                    backend(message).map_err(located)
                })
                .collect()
        })?,
    })
}

fn entries<'a, M, V>(
    map: &'a std::collections::BTreeMap<String, M>,
    value: impl Fn(&str, &'a M) -> Result<V, EventError>,
) -> Result<Entries<'a, V>, EventError> {
    let entry =
        |(name, message): (&'a String, &'a M)| Ok((name.as_str().into(), value(name, message)?));
    map.iter().map(entry).collect::<Result<_, _>>().map(Entries)
}

fn port(message: &proto::Port) -> Result<Object<Port<'_>>, EventError> {
    let proto::Port {
        protocol,
        port,
        node_port,
    } = message;
    let protocol = match proto::Protocol::try_from(*protocol) {
        Ok(proto::Protocol::Tcp) => "TCP".into(),
        Ok(proto::Protocol::Udp) => "UDP".into(),
        Ok(proto::Protocol::Sctp) => "SCTP".into(),
        Ok(proto::Protocol::Unspecified) => return Err(Fault::MissingField("protocol").into()),
        Err(_) => number(*protocol),
    };
    Ok(Object(Port {
        protocol,
        port: port_number(*port, "port")?,
        node_port: port_number(*node_port, "node_port")?,
    }))
}

fn backend(message: &proto::Backend) -> Result<Object<Backend<'_>>, EventError> {
    let proto::Backend {
        ip,
        port,
        weight,
        local,
        host_network,
        state,
        node,
        zone,
        scopes,
    } = message;
    Ok(Object(Backend {
        ip: ip.as_str().into(),
        port: port_number(*port, "port")?,
        weight: *weight,
        local: *local,
        host_network: *host_network,
        state: match proto::EndpointState::try_from(*state) {
            Ok(proto::EndpointState::Unspecified) => None,
            Ok(proto::EndpointState::Ready) => Some("Ready".into()),
            Ok(proto::EndpointState::Terminating) => Some("Terminating".into()),
            Ok(proto::EndpointState::NotReady) => Some("NotReady".into()),
            Err(_) => Some(number(*state)),
        },
        node: node.as_deref().map(Text::from),
        zone: zone.as_deref().map(Text::from),
        scopes: scopes
            .as_ref()
            .map(|proto::Scopes { list }| list.iter().copied().map(scope).collect()),
    }))
}

fn scope<'a>(scope: i32) -> Text<'a> {
    match proto::Scope::try_from(scope) {
        Ok(proto::Scope::Cluster) => "Cluster".into(),
        Ok(proto::Scope::Local) => "Local".into(),
        Ok(proto::Scope::Unspecified) | Err(_) => number(scope),
    }
}

fn policy<'a>(policy: i32) -> Option<Text<'a>> {
    match proto::TrafficPolicy::try_from(policy) {
        Ok(proto::TrafficPolicy::Unspecified) => None,
        Ok(proto::TrafficPolicy::Cluster) => Some("Cluster".into()),
        Ok(proto::TrafficPolicy::Local) => Some("Local".into()),
        Err(_) => Some(number(policy)),
    }
}

/// A value of an enum that has no name here; the check says which names there are.
fn number<'a>(value: i32) -> Text<'a> {
    value.to_string().into()
}

fn port_number(value: u32, field: &str) -> Result<u16, EventError> {
    u16::try_from(value).map_err(|_| {
        // As serde says it of JSON.
        let reason = format!("invalid value: integer `{value}`, expected u16");
        EventError::new(Fault::Shape(reason)).within(field)
    })
}
