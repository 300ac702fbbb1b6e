//! A line becomes an event: which fields belong to which kind.

use crate::{
    error::{EventError, Fault},
    json::shape::LineShape,
    kind::EventKind,
    named::FromName,
    unchecked::{
        choice::Choice,
        event::{Event, NodePortUpdate, Snapshot, WorkloadUpdate},
    },
};

impl<'a> TryFrom<LineShape<'a>> for Event<'a> {
    type Error = EventError;

    /// A snapshot must name all services and nodes, since it removes what it does not name;
    /// interfaces may be given by hand instead, and ServiceCIDRs may be unknown.
    fn try_from(line: LineShape<'a>) -> Result<Self, EventError> {
        let kind = match &line.event {
            Choice::Known(kind) => *kind,
            Choice::Unknown(found) => {
                let found = found.to_string();
                let expected = EventKind::EXPECTED;
                return Err(Fault::UnknownEvent { found, expected }.into());
            }
        };
        if let Some(foreign) = given_fields(&line).find(|field| !kind.fields().contains(field)) {
            return Err(Fault::ForeignField {
                field: foreign,
                event: kind.name(),
                expected: quoted(kind.fields()),
            }
            .into());
        }
        let LineShape {
            event: _,
            node_ips,
            services,
            frontend_ifs,
            backend_ifs,
            service_cidrs,
            nodes,
            workloads,
            gone,
            service,
            id,
            old: _,
            new,
        } = line;
        Ok(match kind {
            EventKind::Resync => Self::Resync(Snapshot {
                node_ips: given(node_ips, "node_ips")?,
                services: given(services, "services")?,
                frontend_ifs: frontend_ifs.unwrap_or_default(),
                backend_ifs: backend_ifs.unwrap_or_default(),
                service_cidrs: service_cidrs.unwrap_or_default(),
                nodes: nodes.unwrap_or_default(),
                workloads: workloads.unwrap_or_default(),
            }),
            EventKind::AddService => Self::AddService(given(service, "service")?),
            EventKind::UpdateService => Self::UpdateService(given(service, "service")?),
            EventKind::DeleteService => Self::DeleteService(given(id, "id")?),
            EventKind::UpdateNodePortServices => Self::UpdateNodePortServices(NodePortUpdate {
                node_ips: given(node_ips, "node_ips")?,
                services: services.unwrap_or_default(),
            }),
            EventKind::UpdateLocalFrontendIfs => Self::UpdateLocalFrontendIfs(given(new, "new")?),
            EventKind::UpdateLocalBackendIfs => Self::UpdateLocalBackendIfs(given(new, "new")?),
            EventKind::UpdateServiceCidrs => Self::UpdateServiceCidrs(given(new, "new")?),
            EventKind::UpdateNodes => Self::UpdateNodes(given(nodes, "nodes")?),
            EventKind::UpdateWorkloads => Self::UpdateWorkloads(WorkloadUpdate {
                workloads: given(workloads, "workloads")?,
                gone: gone.unwrap_or_default(),
            }),
        })
    }
}

fn given<T>(value: Option<T>, field: &'static str) -> Result<T, EventError> {
    value.ok_or_else(|| Fault::MissingField(field).into())
}

/// The names of the fields that a line has, besides the event's name.
fn given_fields(line: &LineShape<'_>) -> impl Iterator<Item = &'static str> + use<> {
    let LineShape {
        event: _,
        node_ips,
        services,
        frontend_ifs,
        backend_ifs,
        service_cidrs,
        nodes,
        workloads,
        gone,
        service,
        id,
        old,
        new,
    } = line;
    [
        node_ips.as_ref().map(|_| "node_ips"),
        services.as_ref().map(|_| "services"),
        frontend_ifs.as_ref().map(|_| "frontend_ifs"),
        backend_ifs.as_ref().map(|_| "backend_ifs"),
        service_cidrs.as_ref().map(|_| "service_cidrs"),
        nodes.as_ref().map(|_| "nodes"),
        workloads.as_ref().map(|_| "workloads"),
        gone.as_ref().map(|_| "gone"),
        service.as_ref().map(|_| "service"),
        id.as_ref().map(|_| "id"),
        old.as_ref().map(|_| "old"),
        new.as_ref().map(|_| "new"),
    ]
    .into_iter()
    .flatten()
}

/// The names as a list for a message, in the form of serde's own messages.
fn quoted(names: &[&str]) -> String {
    match names {
        [name] => format!("`{name}`"),
        names => format!("one of `{}`", names.join("`, `")),
    }
}
