//! From a message to an event.

use shunt_model::{
    EventError, Fault, RendererEvent,
    unchecked::{Line, object::Object},
};

use crate::{
    message::{pieces::SnapshotBuilder, shape},
    proto::{
        AddServiceRequest, DeleteServiceRequest, UpdateLocalBackendIfsRequest,
        UpdateLocalFrontendIfsRequest, UpdateNodePortServicesRequest, UpdateServiceRequest,
        stream_request::Event,
    },
};

/// The event that the message says. Of a Resync it takes the piece for the whole; for one in
/// several pieces there is [`SnapshotBuilder`].
///
/// # Errors
///
/// In the words of [`crate::api::decode()`].
pub fn decode(message: &Event) -> Result<RendererEvent, EventError> {
    match message {
        Event::Resync(piece) => {
            let snapshot = piece.snapshot.as_ref();
            let mut builder = SnapshotBuilder::default();
            builder.add(snapshot.ok_or(Fault::MissingField("snapshot"))?)?;
            builder.finish()
        }
        Event::AddService(AddServiceRequest { service }) => {
            let service = service.as_ref().ok_or(Fault::MissingField("service"))?;
            Line {
                service: Some(Object(shape::service(service, "service")?)),
                ..Line::of("AddService")
            }
            .try_into()
        }
        Event::UpdateService(UpdateServiceRequest { service }) => {
            let service = service.as_ref().ok_or(Fault::MissingField("service"))?;
            Line {
                service: Some(Object(shape::service(service, "service")?)),
                ..Line::of("UpdateService")
            }
            .try_into()
        }
        Event::DeleteService(DeleteServiceRequest { id }) => Line {
            id: id.as_ref().map(shape::id),
            ..Line::of("DeleteService")
        }
        .try_into(),
        Event::UpdateNodePortServices(UpdateNodePortServicesRequest { node_ips, services }) => {
            Line {
                node_ips: Some(shape::texts(node_ips)),
                services: Some(shape::services(services, 0)?),
                ..Line::of("UpdateNodePortServices")
            }
            .try_into()
        }
        Event::UpdateLocalFrontendIfs(UpdateLocalFrontendIfsRequest { new }) => Line {
            new: Some(shape::texts(new)),
            ..Line::of("UpdateLocalFrontendIfs")
        }
        .try_into(),
        Event::UpdateLocalBackendIfs(UpdateLocalBackendIfsRequest { new }) => Line {
            new: Some(shape::texts(new)),
            ..Line::of("UpdateLocalBackendIfs")
        }
        .try_into(),
    }
}
