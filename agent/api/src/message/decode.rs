//! From a message to an event.

use shunt_model::{
    EventError, Fault, RendererEvent,
    unchecked::{self, NodePortUpdate, WorkloadUpdate},
};

use crate::{
    message::{
        unchecked::{id, nodes, service, services, snapshot},
        unchecked_field::texts,
        unchecked_workload::{gone, workloads},
    },
    proto::{
        AddServiceRequest, DeleteServiceRequest, SnapshotPiece, Unreadable,
        UpdateLocalBackendIfsRequest, UpdateLocalFrontendIfsRequest, UpdateNodePortServicesRequest,
        UpdateNodesRequest, UpdateServiceCidrsRequest, UpdateServiceRequest,
        UpdateWorkloadsRequest, stream_request::Event,
    },
};

/// Returns the event of the message. Of a Resync it takes the piece for the whole; one in several
/// pieces is for an [`Assembler`](crate::message::Assembler).
///
/// # Errors
///
/// In the words of [`shunt_model::decode()`].
pub fn decode(message: &Event) -> Result<RendererEvent, EventError> {
    unchecked(message)?.try_into()
}

fn unchecked(message: &Event) -> Result<unchecked::Event<'_>, EventError> {
    Ok(match message {
        Event::Resync(SnapshotPiece {
            snapshot: piece,
            more: _,
            over_source: _,
        }) => unchecked::Event::Resync(snapshot(given(piece.as_ref(), "snapshot")?, (0, 0))?),
        Event::AddService(AddServiceRequest { service: new }) => {
            unchecked::Event::AddService(service(given(new.as_ref(), "service")?, "service")?)
        }
        Event::UpdateService(UpdateServiceRequest { service: new }) => {
            unchecked::Event::UpdateService(service(given(new.as_ref(), "service")?, "service")?)
        }
        Event::DeleteService(DeleteServiceRequest { id: old }) => {
            unchecked::Event::DeleteService(id(given(old.as_ref(), "id")?))
        }
        Event::UpdateNodePortServices(UpdateNodePortServicesRequest {
            node_ips,
            services: new,
        }) => unchecked::Event::UpdateNodePortServices(NodePortUpdate {
            node_ips: texts(node_ips),
            services: services(new, 0)?,
        }),
        Event::UpdateLocalFrontendIfs(UpdateLocalFrontendIfsRequest { new }) => {
            unchecked::Event::UpdateLocalFrontendIfs(texts(new))
        }
        Event::UpdateLocalBackendIfs(UpdateLocalBackendIfsRequest { new }) => {
            unchecked::Event::UpdateLocalBackendIfs(texts(new))
        }
        Event::UpdateServiceCidrs(UpdateServiceCidrsRequest { new }) => {
            unchecked::Event::UpdateServiceCidrs(texts(new))
        }
        Event::UpdateNodes(UpdateNodesRequest { nodes: new }) => {
            unchecked::Event::UpdateNodes(nodes(new))
        }
        Event::Unreadable(Unreadable { reason }) => {
            return Err(Fault::Shape(reason.clone()).into());
        }
        Event::UpdateWorkloads(UpdateWorkloadsRequest {
            workloads: new,
            gone: old,
        }) => unchecked::Event::UpdateWorkloads(WorkloadUpdate {
            workloads: workloads(new, 0)?,
            gone: gone(old)?,
        }),
    })
}

fn given<T>(value: Option<T>, field: &'static str) -> Result<T, EventError> {
    value.ok_or_else(|| Fault::MissingField(field).into())
}
