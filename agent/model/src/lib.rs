//! The events that Shunt receives, and the frontends that follow from them: plain values and pure
//! functions.
//!
//! Nothing here knows Kubernetes or the kernel. A line of JSON becomes a [`RendererEvent`] through
//! [`decode()`]; the [`Renderer`] turns services into frontends.

#![forbid(unsafe_code)]

mod cluster_nodes;
mod endpoint;
mod error;
mod escaped;
mod event;
mod forwarding;
mod interface_pattern;
mod json;
mod kind;
mod lookup;
pub mod maglev;
mod masquerade;
mod named;
mod overrides;
mod path;
mod policy;
mod protocol;
mod render;
mod selection;
mod seniority;
mod service;
mod service_id;
mod split;
mod status_range;
mod topology;
pub mod unchecked;
mod unusable;
mod validate;
mod workload;

pub use self::{
    cluster_nodes::ClusterNodes,
    endpoint::{Endpoint, EndpointState, Hint, Hints, Scope, Scopes},
    error::{EventError, Fault},
    escaped::{Escaped, must_be_escaped},
    event::{NodePortUpdate, RendererEvent, Snapshot, Topic},
    forwarding::Forwarding,
    interface_pattern::InterfacePattern,
    json::{
        decode::decode,
        line_error::{LineError, LineFault},
        lines::{Line, Lines},
    },
    kind::EventKind,
    lookup::{
        answer::{Answer, Membership},
        delta::{Delta, Empty, endpoints_between},
        endpoint::{EndpointKey, EndpointView, Use},
        interest::Interest,
        query::{Query, QueryError, Subject},
        target::{FrontendView, Owner, ServiceTarget, Target, TargetKind, Who},
    },
    masquerade::Masquerade,
    overrides::{Override, Overrides},
    path::segment as path_segment,
    policy::TrafficPolicy,
    protocol::Protocol,
    render::{
        age::Precedence,
        conflict::Conflict,
        error::RenderError,
        footprint::Footprint,
        frontend::{
            Backend, BackendSet, Clients, Frontend, FrontendKey, FrontendKind, PortPart, Refusal,
            SplitShares,
        },
        locations::Locations,
        nodes::NodeAddresses,
        options::{Balancing, RenderOptions},
        plan::{Changes, Plan},
        renderer::Renderer,
        rendering::render,
        split_target::Others,
    },
    selection::Selection,
    seniority::Seniority,
    service::{Hostnames, Service, ServicePort},
    service_id::ServiceId,
    split::{Split, SplitBackend, SplitFrontends, SplitMode, SplitTarget},
    status_range::{StatusRange, StatusRangeError},
    topology::choose_by_hints,
    unusable::unusable,
    validate::snapshot::SnapshotBuilder,
    workload::{
        HostPort, Mesh, MeshIdentity, Phase, PortRange, Workload, WorkloadId, WorkloadKind,
        WorkloadOwner, WorkloadPort, WorkloadUpdate,
    },
};
