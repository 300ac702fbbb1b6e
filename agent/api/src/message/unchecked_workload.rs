//! From messages to the unchecked form of workloads.

use shunt_model::{
    EventError, Fault, Phase, WorkloadKind,
    unchecked::{Choice, HostPort, Mesh, Text, Workload, WorkloadId, WorkloadOwner, WorkloadPort},
};

use crate::{
    message::unchecked_field::{each, port_number, texts, transport, unknown},
    proto,
};

/// A list of workloads, the first of which is `workloads[offset]`.
pub(super) fn workloads(
    list: &[proto::Workload],
    offset: usize,
) -> Result<Vec<Workload<'_>>, EventError> {
    each(list, offset, "workloads", workload)
}

/// A list of identities in the field `gone`.
pub(super) fn gone(list: &[proto::WorkloadId]) -> Result<Vec<WorkloadId<'_>>, EventError> {
    each(list, 0, "gone", id)
}

fn id(message: &proto::WorkloadId) -> Result<WorkloadId<'_>, EventError> {
    let proto::WorkloadId {
        kind,
        namespace,
        name,
    } = message;
    let kind = match proto::WorkloadKind::try_from(*kind) {
        Ok(proto::WorkloadKind::Pod) => Choice::Known(WorkloadKind::Pod),
        Ok(proto::WorkloadKind::ExternalWorkload) => Choice::Known(WorkloadKind::ExternalWorkload),
        Ok(proto::WorkloadKind::Unspecified) => return Err(Fault::MissingField("kind").into()),
        Err(_) => unknown(*kind),
    };
    Ok(WorkloadId {
        kind,
        namespace: namespace.as_str().into(),
        name: name.as_str().into(),
    })
}

fn workload(message: &proto::Workload) -> Result<Workload<'_>, EventError> {
    let proto::Workload {
        id: identity,
        ips,
        ports,
        host_ports,
        node,
        phase,
        ready,
        owner,
        opaque_ports,
        policy_opaque_ports,
        mesh: proxy,
    } = message;
    let identity = identity.as_ref().ok_or(Fault::MissingField("id"))?;
    let phase = match proto::WorkloadPhase::try_from(*phase) {
        Ok(proto::WorkloadPhase::Unspecified) => None,
        Ok(proto::WorkloadPhase::Running) => Some(Choice::Known(Phase::Running)),
        Ok(proto::WorkloadPhase::Pending) => Some(Choice::Known(Phase::Pending)),
        Ok(proto::WorkloadPhase::Terminating) => Some(Choice::Known(Phase::Terminating)),
        Err(_) => Some(unknown(*phase)),
    };
    Ok(Workload {
        id: id(identity).map_err(|error| error.within("id"))?,
        ips: texts(ips),
        ports: each(ports, 0, "ports", port)?,
        host_ports: each(host_ports, 0, "host_ports", host_port)?,
        node: node.as_deref().map(Text::from),
        phase,
        ready: *ready,
        owner: owner
            .as_ref()
            .map(|proto::WorkloadOwner { kind, name }| WorkloadOwner {
                kind: kind.as_str().into(),
                name: name.as_str().into(),
            }),
        opaque_ports: opaque_ports
            .as_ref()
            .map(|proto::PortRanges { list }| texts(list)),
        policy_opaque_ports: some_ranges(policy_opaque_ports.as_ref()),
        mesh: proxy
            .as_ref()
            .map(mesh)
            .transpose()
            .map_err(|error| error.within("mesh"))?,
    })
}

fn some_ranges(message: Option<&proto::PortRanges>) -> Vec<Text<'_>> {
    message.map_or_else(Vec::new, |proto::PortRanges { list }| texts(list))
}

fn mesh(message: &proto::Mesh) -> Result<Mesh<'_>, EventError> {
    let proto::Mesh {
        service_account,
        control_plane,
        uri,
        server_name,
        inbound_port,
        skipped_ports,
    } = message;
    Ok(Mesh {
        service_account: service_account.as_deref().map(Text::from),
        control_plane: control_plane.as_deref().map(Text::from),
        uri: uri.as_deref().map(Text::from),
        server_name: server_name.as_deref().map(Text::from),
        inbound_port: port_number(*inbound_port, "inbound_port")?,
        skipped_ports: some_ranges(skipped_ports.as_ref()),
    })
}

fn port(message: &proto::WorkloadPort) -> Result<WorkloadPort<'_>, EventError> {
    let proto::WorkloadPort {
        name,
        port,
        protocol,
    } = message;
    Ok(WorkloadPort {
        name: name.as_str().into(),
        port: port_number(*port, "port")?,
        protocol: transport(*protocol)?,
    })
}

fn host_port(message: &proto::HostPort) -> Result<HostPort<'_>, EventError> {
    let proto::HostPort { ip, port, protocol } = message;
    Ok(HostPort {
        ip: ip.as_str().into(),
        port: port_number(*port, "port")?,
        protocol: transport(*protocol)?,
    })
}
