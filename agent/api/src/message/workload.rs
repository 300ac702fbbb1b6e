//! A workload as a message.

use shunt_model::{
    HostPort, Mesh, MeshIdentity, Phase, PortRange, Workload, WorkloadId, WorkloadKind,
    WorkloadOwner, WorkloadPort,
};

use crate::{
    message::service::{port_ranges, protocol, texts},
    proto,
};

/// A workload's identity.
pub(super) fn workload_id(id: &WorkloadId) -> proto::WorkloadId {
    let WorkloadId {
        kind,
        namespace,
        name,
    } = id;
    proto::WorkloadId {
        kind: match kind {
            WorkloadKind::Pod => proto::WorkloadKind::Pod,
            WorkloadKind::ExternalWorkload => proto::WorkloadKind::ExternalWorkload,
        }
        .into(),
        namespace: namespace.to_string(),
        name: name.to_string(),
    }
}

/// A workload.
pub(super) fn workload(workload: &Workload) -> proto::Workload {
    let Workload {
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
        mesh: proxy,
    } = workload;
    proto::Workload {
        id: Some(workload_id(id)),
        ips: texts(ips),
        ports: ports.iter().map(port).collect(),
        host_ports: host_ports.iter().map(host_port).collect(),
        node: node.as_deref().map(str::to_owned),
        phase: match phase {
            Phase::Running => proto::WorkloadPhase::Running,
            Phase::Pending => proto::WorkloadPhase::Pending,
            Phase::Terminating => proto::WorkloadPhase::Terminating,
        }
        .into(),
        ready: *ready,
        owner: owner
            .as_ref()
            .map(|WorkloadOwner { kind, name }| proto::WorkloadOwner {
                kind: kind.to_string(),
                name: name.to_string(),
            }),
        opaque_ports: opaque_ports.as_deref().map(port_ranges),
        policy_opaque_ports: some_ranges(policy_opaque_ports),
        mesh: proxy.as_deref().map(mesh),
    }
}

fn some_ranges(ranges: &[PortRange]) -> Option<proto::PortRanges> {
    (!ranges.is_empty()).then(|| port_ranges(ranges))
}

fn mesh(mesh: &Mesh) -> proto::Mesh {
    let Mesh {
        identity,
        inbound_port,
        skipped_ports,
    } = mesh;
    let text = |text: &str| Some(text.to_owned());
    let identity = match identity {
        MeshIdentity::ServiceAccount {
            name,
            control_plane,
        } => proto::Mesh {
            service_account: text(name),
            control_plane: text(control_plane),
            ..proto::Mesh::default()
        },
        MeshIdentity::Uri { uri, server_name } => proto::Mesh {
            uri: text(uri),
            server_name: text(server_name),
            ..proto::Mesh::default()
        },
    };
    proto::Mesh {
        inbound_port: inbound_port.get().into(),
        skipped_ports: some_ranges(skipped_ports),
        ..identity
    }
}

fn port(port: &WorkloadPort) -> proto::WorkloadPort {
    let WorkloadPort {
        name,
        port,
        protocol: transport,
    } = port;
    proto::WorkloadPort {
        name: name.to_string(),
        port: port.get().into(),
        protocol: protocol(*transport).into(),
    }
}

fn host_port(port: &HostPort) -> proto::HostPort {
    let HostPort {
        ip,
        port,
        protocol: transport,
    } = port;
    proto::HostPort {
        ip: ip.to_string(),
        port: port.get().into(),
        protocol: protocol(*transport).into(),
    }
}
