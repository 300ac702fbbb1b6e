//! Workloads become values.

use std::{
    collections::{HashMap, hash_map::Entry},
    num::NonZeroU16,
    str::FromStr,
    sync::Arc,
};

use crate::{
    error::{EventError, Fault},
    unchecked::{self, choice::Choice, event, text::Text},
    validate::{
        address::{address, addresses},
        name::name,
    },
    workload::{
        HostPort, Mesh, MeshIdentity, PortRange, Workload, WorkloadId, WorkloadOwner, WorkloadPort,
        WorkloadUpdate,
    },
};

/// The workloads of an event, each identity once in both of its lists together.
pub(super) fn update(update: event::WorkloadUpdate<'_>) -> Result<WorkloadUpdate, EventError> {
    let event::WorkloadUpdate { workloads, gone } = update;
    let mut list = WorkloadList::default();
    list.extend(workloads)?;
    let mut ids = Vec::with_capacity(gone.len());
    for (index, id) in gone.into_iter().enumerate() {
        let path = format!("gone[{index}]");
        let id = WorkloadId::try_from(id).map_err(|error| error.within(&path))?;
        list.note(&Arc::new(id.clone()), path)?;
        ids.push(id);
    }
    Ok(WorkloadUpdate {
        workloads: list.into_workloads(),
        gone: ids,
    })
}

/// Workloads in the order in which they come, each once.
#[derive(Debug, Default)]
pub(super) struct WorkloadList {
    workloads: Vec<Arc<Workload>>,
    /// The path of each identity.
    first: HashMap<Arc<WorkloadId>, String>,
}

impl WorkloadList {
    /// Returns their number.
    pub(super) const fn count(&self) -> usize {
        self.workloads.len()
    }

    /// Adds workloads at the end.
    pub(super) fn extend(&mut self, list: Vec<unchecked::Workload<'_>>) -> Result<(), EventError> {
        self.workloads.reserve(list.len());
        for workload in list {
            let path = format!("workloads[{}]", self.workloads.len());
            let workload = Workload::try_from(workload).map_err(|error| error.within(&path))?;
            self.note(&workload.id, path)?;
            self.workloads.push(Arc::new(workload));
        }
        Ok(())
    }

    /// Takes note of the identity that stands at `path`, where none stood before.
    fn note(&mut self, id: &Arc<WorkloadId>, path: String) -> Result<(), EventError> {
        match self.first.entry(Arc::clone(id)) {
            Entry::Vacant(place) => {
                place.insert(path);
                Ok(())
            }
            Entry::Occupied(known) => {
                let first = known.get().clone();
                Err(EventError::new(Fault::DuplicateWorkload { first }).within(path))
            }
        }
    }

    pub(super) fn into_workloads(self) -> Vec<Arc<Workload>> {
        self.workloads
    }
}

impl TryFrom<unchecked::WorkloadId<'_>> for WorkloadId {
    type Error = EventError;

    fn try_from(id: unchecked::WorkloadId<'_>) -> Result<Self, EventError> {
        let unchecked::WorkloadId {
            kind,
            namespace,
            name: own_name,
        } = id;
        Ok(Self {
            kind: kind.known().map_err(at("kind"))?,
            namespace: name(&namespace).map_err(at("namespace"))?.into(),
            name: name(&own_name).map_err(at("name"))?.into(),
        })
    }
}

impl TryFrom<unchecked::Workload<'_>> for Workload {
    type Error = EventError;

    fn try_from(workload: unchecked::Workload<'_>) -> Result<Self, EventError> {
        let unchecked::Workload {
            id,
            ips,
            ports,
            host_ports,
            node,
            phase,
            ready,
            owner,
            opaque_ports,
            policy_opaque_ports,
            mesh,
        } = workload;
        let id = WorkloadId::try_from(id).map_err(|error| error.within("id"))?;
        let mut own = Vec::with_capacity(ips.len());
        for ip in addresses(&ips) {
            let ip = ip.map_err(|error| error.within("ips"))?;
            if !own.contains(&ip) {
                own.push(ip);
            }
        }
        let phase = phase.map(Choice::known).transpose().map_err(at("phase"))?;
        Ok(Self {
            id: Arc::new(id),
            ips: own.into(),
            ports: each(ports, "ports", WorkloadPort::try_from)?,
            host_ports: each(host_ports, "host_ports", HostPort::try_from)?,
            node: node.map(|node| Arc::from(&*node)),
            phase: phase.unwrap_or_default(),
            ready,
            owner: owner.map(|owner| WorkloadOwner {
                kind: Arc::from(&*owner.kind),
                name: Arc::from(&*owner.name),
            }),
            opaque_ports: opaque_ports
                .map(|list| port_ranges(list, "opaque_ports"))
                .transpose()?,
            policy_opaque_ports: port_ranges(policy_opaque_ports, "policy_opaque_ports")?,
            mesh: mesh
                .map(|mesh| Mesh::try_from(mesh).map(Box::new))
                .transpose()
                .map_err(|error| error.within("mesh"))?,
        })
    }
}

impl TryFrom<unchecked::Mesh<'_>> for Mesh {
    type Error = EventError;

    fn try_from(mesh: unchecked::Mesh<'_>) -> Result<Self, EventError> {
        let unchecked::Mesh {
            service_account,
            control_plane,
            uri,
            server_name,
            inbound_port,
            skipped_ports,
        } = mesh;
        let shared = |text: &Text<'_>, field| name(text).map(Arc::from).map_err(at(field));
        let identity = match (&service_account, &control_plane, &uri, &server_name) {
            (Some(account), Some(control_plane), None, None) => MeshIdentity::ServiceAccount {
                name: shared(account, "service_account")?,
                control_plane: shared(control_plane, "control_plane")?,
            },
            (None, None, Some(uri), Some(server_name)) => MeshIdentity::Uri {
                uri: match &**uri {
                    "" => return Err(at("uri")(Fault::EmptyName)),
                    uri => uri.into(),
                },
                server_name: shared(server_name, "server_name")?,
            },
            _ => return Err(Fault::MeshIdentity.into()),
        };
        Ok(Self {
            identity,
            inbound_port: NonZeroU16::new(inbound_port)
                .ok_or_else(|| at("inbound_port")(Fault::ZeroPort))?,
            skipped_ports: port_ranges(skipped_ports, "skipped_ports")?,
        })
    }
}

impl TryFrom<unchecked::WorkloadPort<'_>> for WorkloadPort {
    type Error = EventError;

    fn try_from(port: unchecked::WorkloadPort<'_>) -> Result<Self, EventError> {
        let unchecked::WorkloadPort {
            name,
            port,
            protocol,
        } = port;
        Ok(Self {
            name: Arc::from(&*name),
            port: port_number(port)?,
            protocol: protocol.known().map_err(at("protocol"))?,
        })
    }
}

impl TryFrom<unchecked::HostPort<'_>> for HostPort {
    type Error = EventError;

    fn try_from(port: unchecked::HostPort<'_>) -> Result<Self, EventError> {
        let unchecked::HostPort { ip, port, protocol } = port;
        Ok(Self {
            ip: address(&ip).map_err(at("ip"))?,
            port: port_number(port)?,
            protocol: protocol.known().map_err(at("protocol"))?,
        })
    }
}

/// The ports of the list in the field `field`, of a workload or of a service.
pub(super) fn port_ranges(
    list: Vec<Text<'_>>,
    field: &str,
) -> Result<Box<[PortRange]>, EventError> {
    each(list, field, |text: Text<'_>| {
        PortRange::from_str(&text).map_err(EventError::new)
    })
}

/// The items of the list in the field `field`.
fn each<T, U>(
    list: Vec<T>,
    field: &str,
    into: impl Fn(T) -> Result<U, EventError>,
) -> Result<Box<[U]>, EventError> {
    let items = list.into_iter().enumerate();
    items
        .map(|(index, item)| {
            into(item).map_err(|error| error.within(format_args!("{field}[{index}]")))
        })
        .collect()
}

fn at(field: &'static str) -> impl Fn(Fault) -> EventError {
    move |fault| EventError::new(fault).within(field)
}

fn port_number(port: u16) -> Result<NonZeroU16, EventError> {
    NonZeroU16::new(port).ok_or_else(|| at("port")(Fault::ZeroPort))
}

/// A port, or the first and the last of a range: `443`, `3306-3310`.
impl FromStr for PortRange {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.trim().parse::<u16>().ok();
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(Fault::NotAPortRange(text.to_owned())),
        }
    }
}
