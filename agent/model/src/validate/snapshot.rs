//! A snapshot, whole or piece by piece: each piece is checked when it comes.

use std::{collections::HashMap, sync::Arc};

use crate::{
    error::{EventError, Fault},
    event::Snapshot,
    service::Service,
    service_id::ServiceId,
    unchecked,
    validate::{address, name::interfaces, nodes, workload::WorkloadList},
};

/// Puts a snapshot together. The pieces are concatenated, and an error's path is one through the
/// whole.
#[derive(Debug, Default)]
pub struct SnapshotBuilder {
    snapshot: Snapshot,
    services: ServiceList,
    workloads: WorkloadList,
    /// Number of each in the pieces; duplicates count twice.
    node_ips: usize,
    frontend_ifs: usize,
    backend_ifs: usize,
    service_cidrs: usize,
}

impl SnapshotBuilder {
    /// Returns the number of services so far.
    pub const fn service_count(&self) -> usize {
        self.services.services.len()
    }

    /// Returns the number of workloads so far.
    pub const fn workload_count(&self) -> usize {
        self.workloads.count()
    }

    /// Adds a piece.
    ///
    /// # Errors
    ///
    /// The piece has a fault; the snapshot is then of no use.
    pub fn add(&mut self, piece: unchecked::Snapshot<'_>) -> Result<(), EventError> {
        let unchecked::Snapshot {
            node_ips,
            services,
            frontend_ifs,
            backend_ifs,
            service_cidrs,
            nodes: entries,
            workloads,
        } = piece;
        let found = address::node_set(&node_ips, "node_ips", self.node_ips)?;
        self.node_ips += node_ips.len();
        self.snapshot.node_ips.extend(found);
        self.services.extend(services)?;
        let found = interfaces(&frontend_ifs, "frontend_ifs", self.frontend_ifs)?;
        self.frontend_ifs += frontend_ifs.len();
        self.snapshot.frontend_ifs.extend(found);
        let found = interfaces(&backend_ifs, "backend_ifs", self.backend_ifs)?;
        self.backend_ifs += backend_ifs.len();
        self.snapshot.backend_ifs.extend(found);
        let found = address::service_cidrs(&service_cidrs, "service_cidrs", self.service_cidrs)?;
        self.service_cidrs += service_cidrs.len();
        self.snapshot.service_cidrs.extend(found);
        nodes::add(&mut self.snapshot.nodes, &entries)?;
        self.workloads.extend(workloads)
    }

    /// The snapshot, when all pieces were added.
    pub fn finish(self) -> Snapshot {
        Snapshot {
            services: self.services.into_services(),
            workloads: self.workloads.into_workloads(),
            ..self.snapshot
        }
    }
}

/// Services in the order in which they come, each once.
#[derive(Debug, Default)]
pub(super) struct ServiceList {
    services: Vec<Service>,
    /// Index of each of them.
    first: HashMap<Arc<ServiceId>, usize>,
}

impl ServiceList {
    /// Adds services at the end.
    pub(super) fn extend(&mut self, list: Vec<unchecked::Service<'_>>) -> Result<(), EventError> {
        self.services.reserve(list.len());
        for service in list {
            let service = Service::try_from(service)?;
            let index = self.services.len();
            if let Some(first) = self.first.insert(Arc::clone(&service.id), index) {
                let fault = Fault::DuplicateService {
                    first: format!("services[{first}]"),
                };
                return Err(EventError {
                    service: Some(service.id.to_string()),
                    field: String::new(),
                    fault,
                });
            }
            self.services.push(service);
        }
        Ok(())
    }

    pub(super) fn into_services(self) -> Vec<Service> {
        self.services
    }
}
