//! The one check of an event, whatever way it came.

use crate::{
    cluster_nodes::ClusterNodes,
    error::EventError,
    event::{NodePortUpdate, RendererEvent},
    service_id::ServiceId,
    unchecked::{self, event::Event},
    validate::{
        address,
        name::interfaces,
        nodes,
        snapshot::{ServiceList, SnapshotBuilder},
        workload,
    },
};

impl TryFrom<Event<'_>> for RendererEvent {
    type Error = EventError;

    fn try_from(event: Event<'_>) -> Result<Self, EventError> {
        Ok(match event {
            Event::Resync(snapshot) => {
                let mut builder = SnapshotBuilder::default();
                builder.add(snapshot)?;
                Self::Resync(builder.finish())
            }
            Event::AddService(service) => Self::AddService(service.try_into()?),
            Event::UpdateService(service) => Self::UpdateService(service.try_into()?),
            Event::DeleteService(id) => Self::DeleteService(
                ServiceId::try_from(id).map_err(|error: EventError| error.within("id"))?,
            ),
            Event::UpdateNodePortServices(unchecked::NodePortUpdate { node_ips, services }) => {
                let mut list = ServiceList::default();
                let node_ips = address::node_set(&node_ips, "node_ips", 0)?;
                list.extend(services)?;
                Self::UpdateNodePortServices(NodePortUpdate {
                    node_ips,
                    services: list.into_services(),
                })
            }
            Event::UpdateLocalFrontendIfs(new) => {
                Self::UpdateLocalFrontendIfs(interfaces(&new, "new", 0)?)
            }
            Event::UpdateLocalBackendIfs(new) => {
                Self::UpdateLocalBackendIfs(interfaces(&new, "new", 0)?)
            }
            Event::UpdateServiceCidrs(new) => {
                Self::UpdateServiceCidrs(address::service_cidrs(&new, "new", 0)?)
            }
            Event::UpdateNodes(entries) => {
                let mut known = ClusterNodes::default();
                nodes::add(&mut known, &entries)?;
                Self::UpdateNodes(known)
            }
            Event::UpdateWorkloads(update) => Self::UpdateWorkloads(workload::update(update)?),
        })
    }
}
