//! Events as they come in, before anything in them is checked but their shape.
//!
//! JSON and the messages of the gRPC interface both give this form, and it has the one check:
//! `RendererEvent::try_from`. Text is borrowed from the line or the message: a Resync of a large
//! cluster has many megabytes.

pub(crate) mod choice;
pub(crate) mod event;
pub(crate) mod service;
pub(crate) mod text;
pub(crate) mod workload;

pub use self::{
    choice::Choice,
    event::{Event, NodePortUpdate, Snapshot, WorkloadUpdate},
    service::{Backend, Entries, Id, Port, Service, Split, SplitBackend},
    text::Text,
    workload::{HostPort, Mesh, Workload, WorkloadId, WorkloadOwner, WorkloadPort},
};
