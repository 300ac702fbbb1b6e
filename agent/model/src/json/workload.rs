//! The shape of a workload in JSON.

use serde::{Deserialize, Deserializer};

use crate::{
    json::object::{FromFields, from_fields_as, object, objects, optional_object},
    protocol::Protocol,
    unchecked::{
        choice::Choice,
        text::Text,
        workload::{HostPort, Mesh, Workload, WorkloadId, WorkloadOwner, WorkloadPort},
    },
    workload::{Phase, WorkloadKind},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "WorkloadId")]
struct WorkloadIdShape<'a> {
    #[serde(borrow)]
    kind: Choice<'a, WorkloadKind>,
    namespace: Text<'a>,
    name: Text<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "Workload")]
struct WorkloadShape<'a> {
    #[serde(borrow, deserialize_with = "object")]
    id: WorkloadId<'a>,
    #[serde(default)]
    ips: Vec<Text<'a>>,
    #[serde(default, deserialize_with = "objects")]
    ports: Vec<WorkloadPort<'a>>,
    #[serde(default, deserialize_with = "objects")]
    host_ports: Vec<HostPort<'a>>,
    node: Option<Text<'a>>,
    phase: Option<Choice<'a, Phase>>,
    ready: Option<bool>,
    #[serde(default, deserialize_with = "optional_object")]
    owner: Option<WorkloadOwner<'a>>,
    opaque_ports: Option<Vec<Text<'a>>>,
    #[serde(default)]
    policy_opaque_ports: Vec<Text<'a>>,
    #[serde(default, deserialize_with = "optional_object")]
    mesh: Option<Mesh<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "Mesh")]
struct MeshShape<'a> {
    #[serde(borrow)]
    service_account: Option<Text<'a>>,
    control_plane: Option<Text<'a>>,
    uri: Option<Text<'a>>,
    server_name: Option<Text<'a>>,
    inbound_port: u16,
    #[serde(default)]
    skipped_ports: Vec<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "WorkloadPort")]
struct WorkloadPortShape<'a> {
    #[serde(borrow, default = "nothing")]
    name: Text<'a>,
    port: u16,
    protocol: Choice<'a, Protocol>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "HostPort")]
struct HostPortShape<'a> {
    #[serde(borrow)]
    ip: Text<'a>,
    port: u16,
    protocol: Choice<'a, Protocol>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "WorkloadOwner")]
struct WorkloadOwnerShape<'a> {
    #[serde(borrow)]
    kind: Text<'a>,
    name: Text<'a>,
}

fn nothing<'a>() -> Text<'a> {
    "".into()
}

from_fields_as! {
    WorkloadId as WorkloadIdShape,
    Workload as WorkloadShape,
    Mesh as MeshShape,
    WorkloadPort as WorkloadPortShape,
    HostPort as HostPortShape,
    WorkloadOwner as WorkloadOwnerShape,
}
