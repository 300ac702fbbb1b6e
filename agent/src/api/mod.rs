//! The northbound API: what Shunt is told, as plain values.
//!
//! Nothing here knows Kubernetes or the kernel. A line of JSON becomes a [`RendererEvent`] through
//! [`decode()`]: first the wire form (JSON's shape), then the values, each with a precise error. A
//! message of the gRPC interface goes the same way through [`message`].

mod convert;
mod decode;
mod endpoint;
mod error;
mod event;
mod locate;
pub mod message;
mod origin;
mod policy;
mod protocol;
mod service;
mod service_id;
mod wire;

pub use self::{
    decode::decode,
    endpoint::{Endpoint, EndpointState, Scopes},
    error::{EventError, Fault},
    event::{NodePortUpdate, RendererEvent, Snapshot},
    origin::Origin,
    policy::TrafficPolicy,
    protocol::Protocol,
    service::{Service, ServicePort},
    service_id::ServiceId,
};
