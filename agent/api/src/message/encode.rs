//! From an event to a message.

use shunt_model::{NodePortUpdate, RendererEvent, WorkloadUpdate};

use crate::{
    message::{
        pieces::pieces,
        service::{nodes, service, service_id, texts},
        workload::{workload, workload_id},
    },
    proto::{
        AddServiceRequest, DeleteServiceRequest, SnapshotPiece, StreamRequest,
        UpdateLocalBackendIfsRequest, UpdateLocalFrontendIfsRequest, UpdateNodePortServicesRequest,
        UpdateNodesRequest, UpdateServiceCidrsRequest, UpdateServiceRequest,
        UpdateWorkloadsRequest, stream_request,
    },
};

/// Returns the messages of `event` in a stream: one, or for a large Resync several.
pub fn encode(event: RendererEvent) -> Box<dyn Iterator<Item = StreamRequest> + Send> {
    use stream_request::Event;
    let one = |event| {
        let event = Some(event);
        Box::new(std::iter::once(StreamRequest { event }))
    };
    match event {
        RendererEvent::Resync(snapshot) => {
            let mut pieces = pieces(snapshot).peekable();
            Box::new(std::iter::from_fn(move || {
                let snapshot = Some(pieces.next()?);
                let more = pieces.peek().is_some();
                let event = Some(Event::Resync(SnapshotPiece {
                    snapshot,
                    more,
                    over_source: false,
                }));
                Some(StreamRequest { event })
            }))
        }
        RendererEvent::AddService(new) => one(Event::AddService(AddServiceRequest {
            service: Some(service(&new)),
        })),
        RendererEvent::UpdateService(new) => one(Event::UpdateService(UpdateServiceRequest {
            service: Some(service(&new)),
        })),
        RendererEvent::DeleteService(id) => one(Event::DeleteService(DeleteServiceRequest {
            id: Some(service_id(&id)),
        })),
        RendererEvent::UpdateNodePortServices(NodePortUpdate { node_ips, services }) => one(
            Event::UpdateNodePortServices(UpdateNodePortServicesRequest {
                node_ips: texts(node_ips),
                services: services.iter().map(service).collect(),
            }),
        ),
        RendererEvent::UpdateLocalFrontendIfs(new) => one(Event::UpdateLocalFrontendIfs(
            UpdateLocalFrontendIfsRequest { new: texts(new) },
        )),
        RendererEvent::UpdateLocalBackendIfs(new) => {
            one(Event::UpdateLocalBackendIfs(UpdateLocalBackendIfsRequest {
                new: texts(new),
            }))
        }
        RendererEvent::UpdateServiceCidrs(new) => {
            one(Event::UpdateServiceCidrs(UpdateServiceCidrsRequest {
                new: texts(new),
            }))
        }
        RendererEvent::UpdateNodes(new) => one(Event::UpdateNodes(UpdateNodesRequest {
            nodes: nodes(&new),
        })),
        RendererEvent::UpdateWorkloads(WorkloadUpdate { workloads, gone }) => {
            let workloads = workloads.iter().map(|new| workload(new));
            one(Event::UpdateWorkloads(UpdateWorkloadsRequest {
                workloads: workloads.collect(),
                gone: gone.iter().map(workload_id).collect(),
            }))
        }
    }
}
