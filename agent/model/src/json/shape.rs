//! The shape of an event in JSON: which field is of which type.
//!
//! The structs with `remote` have the fields of the unchecked form's; the compiler compares them.

use serde::{Deserialize, Deserializer, de::IgnoredAny};

use crate::{
    endpoint::{EndpointState, Scope},
    forwarding::Forwarding,
    json::object::{
        FromFields, from_fields_as, named_lists, named_objects, named_texts, object, objects,
        optional_entries, optional_object, optional_objects, passed_on,
    },
    kind::EventKind,
    named::FromName,
    policy::TrafficPolicy,
    protocol::Protocol,
    selection::Selection,
    split::{SplitFrontends, SplitMode},
    unchecked::{
        choice::Choice,
        service::{Backend, Entries, Id, Port, Service, Split, SplitBackend},
        text::Text,
        workload::{Workload, WorkloadId},
    },
};

/// One line. All events share this one struct, so that a line is decoded in one pass whatever
/// the order of its fields (serde's tagged enums would buffer it first).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LineShape<'a> {
    #[serde(borrow)]
    pub(super) event: Choice<'a, EventKind>,
    pub(super) node_ips: Option<Vec<Text<'a>>>,
    #[serde(default, deserialize_with = "optional_objects")]
    pub(super) services: Option<Vec<Service<'a>>>,
    pub(super) frontend_ifs: Option<Vec<Text<'a>>>,
    pub(super) backend_ifs: Option<Vec<Text<'a>>>,
    pub(super) service_cidrs: Option<Vec<Text<'a>>>,
    #[serde(default, deserialize_with = "optional_entries")]
    pub(super) nodes: Option<Entries<'a, Vec<Text<'a>>>>,
    #[serde(default, deserialize_with = "optional_objects")]
    pub(super) workloads: Option<Vec<Workload<'a>>>,
    #[serde(default, deserialize_with = "optional_objects")]
    pub(super) gone: Option<Vec<WorkloadId<'a>>>,
    #[serde(default, deserialize_with = "optional_object")]
    pub(super) service: Option<Service<'a>>,
    #[serde(default, deserialize_with = "optional_object")]
    pub(super) id: Option<Id<'a>>,
    pub(super) old: Option<IgnoredAny>,
    pub(super) new: Option<Vec<Text<'a>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "Id")]
struct IdShape<'a> {
    #[serde(borrow)]
    namespace: Text<'a>,
    name: Text<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "Service")]
struct ServiceShape<'a> {
    #[serde(borrow, deserialize_with = "object")]
    id: Id<'a>,
    #[serde(default)]
    cluster_ips: Vec<Text<'a>>,
    #[serde(default)]
    external_ips: Vec<Text<'a>>,
    #[serde(default)]
    load_balancer_ips: Vec<Text<'a>>,
    #[serde(default)]
    load_balancer_source_ranges: Vec<Text<'a>>,
    traffic_policy: Option<Choice<'a, TrafficPolicy>>,
    internal_traffic_policy: Option<Choice<'a, TrafficPolicy>>,
    #[serde(default)]
    session_affinity_timeout: u32,
    selection: Option<Choice<'a, Selection>>,
    forwarding: Option<Choice<'a, Forwarding>>,
    masquerade: Option<bool>,
    opaque_ports: Option<Vec<Text<'a>>>,
    #[serde(default, deserialize_with = "passed_on")]
    profile: Option<Text<'a>>,
    #[serde(default, deserialize_with = "named_texts")]
    hostnames: Entries<'a, Text<'a>>,
    #[serde(default, deserialize_with = "named_objects")]
    ports: Entries<'a, Port<'a>>,
    #[serde(default, deserialize_with = "named_lists")]
    backends: Entries<'a, Vec<Backend<'a>>>,
    #[serde(default, deserialize_with = "named_objects")]
    splits: Entries<'a, Split<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "Port")]
struct PortShape<'a> {
    #[serde(borrow)]
    protocol: Choice<'a, Protocol>,
    port: u16,
    #[serde(default)]
    node_port: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "Split")]
struct SplitShape<'a> {
    #[serde(borrow)]
    mode: Choice<'a, SplitMode>,
    frontends: Option<Choice<'a, SplitFrontends>>,
    #[serde(deserialize_with = "objects")]
    backends: Vec<SplitBackend<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "SplitBackend")]
struct SplitBackendShape<'a> {
    #[serde(borrow, default, deserialize_with = "optional_object")]
    service: Option<Id<'a>>,
    ip: Option<Text<'a>>,
    port: Option<u16>,
    invalid: Option<Text<'a>>,
    weight: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BackendShape<'a> {
    #[serde(borrow)]
    ip: Text<'a>,
    port: u16,
    weight: Option<u32>,
    #[serde(default)]
    local: bool,
    #[serde(default, rename = "host_network")]
    _host_network: bool,
    state: Option<Choice<'a, EndpointState>>,
    #[serde(default)]
    serving: bool,
    node: Option<Text<'a>>,
    zone: Option<Text<'a>>,
    scopes: Option<Vec<Choice<'a, Scope>>>,
}

impl<'a> From<BackendShape<'a>> for Backend<'a> {
    fn from(shape: BackendShape<'a>) -> Self {
        let BackendShape {
            ip,
            port,
            weight,
            local,
            _host_network: _,
            state,
            serving,
            node,
            zone,
            scopes,
        } = shape;
        Self {
            ip,
            port,
            weight,
            local,
            state,
            serving,
            node,
            zone,
            scopes,
        }
    }
}

impl<'de> FromFields<'de> for LineShape<'de> {
    fn from_fields<D: Deserializer<'de>>(fields: D) -> Result<Self, D::Error> {
        Self::deserialize(fields)
    }
}

from_fields_as! {
    Id as IdShape,
    Service as ServiceShape,
    Port as PortShape,
    Split as SplitShape,
    SplitBackend as SplitBackendShape,
}

impl<'de> FromFields<'de> for Backend<'de> {
    fn from_fields<D: Deserializer<'de>>(fields: D) -> Result<Self, D::Error> {
        BackendShape::deserialize(fields).map(Self::from)
    }
}

impl<'de: 'a, 'a, T: FromName> Deserialize<'de> for Choice<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Text::deserialize(deserializer).map(Self::from)
    }
}
