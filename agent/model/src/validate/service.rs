//! A service becomes values.

use std::{collections::HashMap, hash::Hash, net::IpAddr, num::NonZeroU16, sync::Arc};

use ipnet::IpNet;
use serde_json::{Map, Value};

use crate::{
    error::{EventError, Fault},
    path::segment,
    policy::TrafficPolicy,
    service::{Hostnames, Service, ServicePort},
    service_id::ServiceId,
    unchecked::{self, choice::Choice, service::Entries, text::Text},
    validate::{
        address::{address, addresses, family, range},
        backends::endpoints,
        name::name,
        split::checked,
        workload::port_ranges,
    },
};

impl TryFrom<unchecked::Id<'_>> for ServiceId {
    type Error = EventError;

    fn try_from(id: unchecked::Id<'_>) -> Result<Self, EventError> {
        let unchecked::Id {
            namespace,
            name: own_name,
        } = id;
        Ok(Self {
            namespace: name(&namespace)
                .map_err(|fault| EventError::new(fault).within("namespace"))?
                .into(),
            name: name(&own_name)
                .map_err(|fault| EventError::new(fault).within("name"))?
                .into(),
        })
    }
}

impl TryFrom<unchecked::Service<'_>> for Service {
    type Error = EventError;

    fn try_from(service: unchecked::Service<'_>) -> Result<Self, EventError> {
        let unchecked::Id { namespace, name } = &service.id;
        let shown = format!("{}/{}", &**namespace, &**name);
        convert(service).map_err(|error| EventError {
            service: Some(shown),
            ..error
        })
    }
}

fn convert(service: unchecked::Service<'_>) -> Result<Service, EventError> {
    let unchecked::Service {
        id,
        cluster_ips,
        external_ips,
        load_balancer_ips,
        load_balancer_source_ranges,
        traffic_policy,
        internal_traffic_policy,
        session_affinity_timeout,
        selection,
        forwarding,
        masquerade,
        opaque_ports,
        profile,
        hostnames,
        ports,
        backends,
        splits,
    } = service;
    let mut seen = Seen::default();
    let mut service = Service {
        id: Arc::new(
            id.try_into()
                .map_err(|error: EventError| error.within("id"))?,
        ),
        cluster_ips: cluster_addresses(&cluster_ips, "cluster_ips", &mut seen)?,
        external_ips: own_addresses(&external_ips, "external_ips", &mut seen)?,
        load_balancer_ips: own_addresses(&load_balancer_ips, "load_balancer_ips", &mut seen)?,
        load_balancer_source_ranges: source_ranges(&load_balancer_source_ranges)?,
        traffic_policy: policy(traffic_policy, "traffic_policy")?,
        internal_traffic_policy: policy(internal_traffic_policy, "internal_traffic_policy")?,
        session_affinity_timeout,
        selection: selection
            .map(Choice::known)
            .transpose()
            .map_err(|fault| EventError::new(fault).within("selection"))?,
        forwarding: forwarding
            .map(Choice::known)
            .transpose()
            .map_err(|fault| EventError::new(fault).within("forwarding"))?,
        masquerade,
        opaque_ports: opaque_ports
            .map(|list| port_ranges(list, "opaque_ports"))
            .transpose()?
            .map(Into::into),
        profile: profile.map(|text| object(&text)).transpose()?,
        hostnames: addresses_by_name(hostnames)?,
        seniority: None,
        ports: service_ports(ports)?,
    };
    add_endpoints(&mut service, backends)?;
    add_splits(&mut service, splits)?;
    Ok(service)
}

/// The hostnames of endpoints, each address once.
fn addresses_by_name(list: Entries<'_, Text<'_>>) -> Result<Option<Arc<Hostnames>>, EventError> {
    let mut hostnames = Hostnames::new();
    for (ip, hostname) in list {
        let at = |fault| EventError::new(fault).within(format_args!("hostnames.{}", segment(&ip)));
        let ip = address(&ip).map_err(at)?;
        let hostname = name(&hostname).map_err(at)?;
        if hostnames.insert(ip, hostname.into()).is_some() {
            return Err(at(Fault::DuplicateName));
        }
    }
    Ok((!hostnames.is_empty()).then(|| Arc::new(hostnames)))
}

/// The text of a JSON object, in the form in which equal ones are equal texts.
fn object(text: &str) -> Result<Arc<str>, EventError> {
    let object: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| EventError::new(Fault::Shape(error.to_string())).within("profile"))?;
    Ok(Value::Object(object).to_string().into())
}

/// Path of the first occurrence of each value of a service.
struct Seen<T>(HashMap<T, String>);

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Hash + Eq> Seen<T> {
    /// Notes the value at `path`; gives the earlier path if it is not new.
    fn note(&mut self, value: T, path: &str) -> Result<(), String> {
        match self.0.insert(value, path.to_owned()) {
            None => Ok(()),
            Some(first) => Err(first),
        }
    }
}

/// One list of the service's addresses. Since each address is combined with each port, the
/// service's frontends are distinct if its addresses are, over all lists, and its ports are.
fn own_addresses(
    list: &[Text<'_>],
    field: &str,
    seen: &mut Seen<IpAddr>,
) -> Result<Vec<IpAddr>, EventError> {
    let mut found = Vec::with_capacity(list.len());
    for (index, address) in addresses(list).enumerate() {
        let address = address.map_err(|error| error.within(field))?;
        let path = format!("{field}[{index}]");
        seen.note(address, &path).map_err(|first| {
            EventError::new(Fault::DuplicateAddress { address, first }).within(path)
        })?;
        found.push(address);
    }
    Ok(found)
}

/// The addresses inside the cluster: as in Kubernetes, one of each family.
fn cluster_addresses(
    list: &[Text<'_>],
    field: &str,
    seen: &mut Seen<IpAddr>,
) -> Result<Vec<IpAddr>, EventError> {
    let addresses = own_addresses(list, field, seen)?;
    let mut families = Seen::default();
    for (index, address) in addresses.iter().enumerate() {
        let (family, path) = (family(*address), format!("{field}[{index}]"));
        families.note(family, &path).map_err(|first| {
            EventError::new(Fault::SecondClusterIp { family, first }).within(&path)
        })?;
    }
    Ok(addresses)
}

fn source_ranges(list: &[Text<'_>]) -> Result<Vec<IpNet>, EventError> {
    list.iter()
        .enumerate()
        .map(|(index, text)| {
            range(text).map_err(|fault| {
                EventError::new(fault).within(format_args!("load_balancer_source_ranges[{index}]"))
            })
        })
        .collect()
}

fn policy(
    given: Option<Choice<'_, TrafficPolicy>>,
    field: &str,
) -> Result<TrafficPolicy, EventError> {
    given
        .map_or_else(|| Ok(TrafficPolicy::default()), Choice::known)
        .map_err(|fault| EventError::new(fault).within(field))
}

/// The ports, sorted by name, still without endpoints.
fn service_ports(
    entries: Entries<'_, unchecked::Port<'_>>,
) -> Result<Vec<ServicePort>, EventError> {
    let single = entries.len() == 1;
    let (mut ports_seen, mut node_ports_seen) = (Seen::default(), Seen::default());
    let mut ports = Vec::with_capacity(entries.len());
    for (name, port) in entries {
        let path = format!("ports.{}", segment(&name));
        let port = service_port(&name, port, single).map_err(|error| error.within(&path))?;
        let duplicate = |port, protocol, path: &str| {
            let path = path.to_owned();
            move |first| {
                EventError::new(Fault::DuplicatePort {
                    port,
                    protocol,
                    first,
                })
                .within(path)
            }
        };
        let ServicePort {
            protocol,
            port: number,
            node_port,
            ..
        } = port;
        let port_path = format!("{path}.port");
        ports_seen
            .note((number, protocol), &port_path)
            .map_err(duplicate(number, protocol, &port_path))?;
        if let Some(number) = node_port.map(NonZeroU16::get) {
            let port_path = format!("{path}.node_port");
            node_ports_seen
                .note((number, protocol), &port_path)
                .map_err(duplicate(number, protocol, &port_path))?;
        }
        ports.push(port);
    }
    ports.sort_by(|a, b| a.name.cmp(&b.name));
    match ports.windows(2).find(|pair| pair[0].name == pair[1].name) {
        None => Ok(ports),
        Some(pair) => Err(EventError::new(Fault::DuplicateName)
            .within(format_args!("ports.{}", segment(&pair[0].name)))),
    }
}

/// One port. As in Kubernetes, the only port of a service needs no name.
fn service_port(
    name: &str,
    port: unchecked::Port<'_>,
    single: bool,
) -> Result<ServicePort, EventError> {
    let unchecked::Port {
        protocol,
        port,
        node_port,
    } = port;
    if name.is_empty() && !single {
        return Err(Fault::EmptyName.into());
    }
    let protocol = protocol
        .known()
        .map_err(|fault| EventError::new(fault).within("protocol"))?;
    if port == 0 {
        return Err(EventError::new(Fault::ZeroPort).within("port"));
    }
    let node_port = NonZeroU16::new(node_port);
    Ok(ServicePort {
        name: name.into(),
        protocol,
        port,
        node_port,
        endpoints: Vec::new(),
        split: None,
    })
}

/// Puts the backends behind the ports that they name.
fn add_endpoints(
    service: &mut Service,
    backends: Entries<'_, Vec<unchecked::Backend<'_>>>,
) -> Result<(), EventError> {
    let mut seen = Seen::default();
    for (name, list) in backends {
        let path = format!("backends.{}", segment(&name));
        let port = named_port(service, &name, &path, &mut seen)?;
        service.ports[port].endpoints = endpoints(list, &path, service)?;
    }
    Ok(())
}

/// Gives the splits to the ports that they name.
fn add_splits(
    service: &mut Service,
    splits: Entries<'_, unchecked::Split<'_>>,
) -> Result<(), EventError> {
    let mut seen = Seen::default();
    for (name, split) in splits {
        let path = format!("splits.{}", segment(&name));
        let port = named_port(service, &name, &path, &mut seen)?;
        let split = checked(split, service).map_err(|error| error.within(&path))?;
        service.ports[port].split = Some(Arc::new(split));
    }
    Ok(())
}

/// The index of the port of this name, of which the field at `path` speaks, for the first time.
fn named_port(
    service: &Service,
    name: &str,
    path: &str,
    seen: &mut Seen<usize>,
) -> Result<usize, EventError> {
    let port = service
        .ports
        .binary_search_by(|port| (*port.name).cmp(name))
        .map_err(|_| EventError::new(Fault::UndeclaredPort).within(path))?;
    seen.note(port, path)
        .map_err(|_| EventError::new(Fault::DuplicateName).within(path))?;
    Ok(port)
}
