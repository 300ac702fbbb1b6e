//! The endpoints that a Service is to have of workloads: a pure function of both.

use std::{collections::BTreeMap, sync::Arc};

use foldhash::quality::RandomState;
use indexmap::IndexMap;

use crate::{
    controllers::workloads::{
        candidate::Candidate,
        service::{Family, Labels, Service, ServicePort, TargetPort},
        slice::{Endpoint, EndpointPort, HEADLESS, MANAGED_BY, MANAGER, Ports, SERVICE_NAME},
    },
    objects::external_workload::{DeclaredPort, WorkloadKey},
};

/// Content that the slices of a Service are to have.
#[derive(Debug, Default)]
pub(super) struct Desired {
    /// The endpoints by family.
    pub(super) families: BTreeMap<Family, Groups>,
    /// The selected workloads that are no endpoints, and why.
    pub(super) left_out: BTreeMap<Arc<WorkloadKey>, LeftOut>,
}

/// Endpoints by their ports.
pub(super) type Groups = BTreeMap<Ports, Group>;

/// Endpoints by their identity, in the order of their workloads. Identities are long and begin alike, so that
/// comparing thousands of them takes longer than hashing them.
pub(super) type Group = IndexMap<Arc<str>, Arc<Endpoint>, RandomState>;

/// Why a workload that a Service selects is no endpoint of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LeftOut {
    /// It has no address that could be used.
    NoAddress,
    /// None of the Service's ports is one of its own.
    NoMatchingPort,
}

impl Desired {
    /// The endpoints of `service`, of these workloads that it selects.
    pub(super) fn of<'a>(service: &Service, selected: impl Iterator<Item = &'a Candidate>) -> Self {
        let mut desired = Self::default();
        for family in &service.families {
            desired.families.entry(*family).or_default();
        }
        // Most workloads of a Service have the same ports.
        let mut known: BTreeMap<&[DeclaredPort], Option<Ports>> = BTreeMap::new();
        for candidate in selected {
            let workload = candidate.workload();
            let Ok(body) = &workload.body else {
                continue;
            };
            let mut left_out = |why| {
                desired.left_out.insert(Arc::clone(&workload.key), why);
            };
            if body.ips.is_empty() {
                left_out(LeftOut::NoAddress);
                continue;
            }
            let ports = known.entry(&body.ports);
            let ports = ports.or_insert_with_key(|declared| endpoint_ports(service, declared));
            let Some(ports) = ports else {
                left_out(LeftOut::NoMatchingPort);
                continue;
            };
            for (family, groups) in &mut desired.families {
                let Some(endpoint) = candidate.endpoint(service, *family) else {
                    continue;
                };
                let group = groups.entry(Arc::clone(ports)).or_default();
                group.insert(Arc::clone(&endpoint.identity), Arc::clone(endpoint));
            }
        }
        desired
    }
}

/// The labels of a Service's slices: its own but those that slices have of us.
pub(super) fn labels(service: &Service) -> Labels {
    let mut labels = service.labels.clone();
    for reserved in [SERVICE_NAME, MANAGED_BY, HEADLESS] {
        labels.remove(reserved);
    }
    labels.insert(SERVICE_NAME.into(), service.id.name.clone());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    if service.is_headless {
        labels.insert(HEADLESS.into(), "".into());
    }
    labels
}

/// The declared ports that the Service's ports mean, sorted; `None`: it means none.
fn endpoint_ports(service: &Service, declared: &[DeclaredPort]) -> Option<Ports> {
    if service.is_headless && service.ports.is_empty() {
        return Some(Ports::default());
    }
    let ports = service.ports.iter();
    let mut ports: Vec<EndpointPort> = ports
        .filter_map(|port| {
            Some(EndpointPort {
                name: port.name.clone(),
                port: Some(meant(port, declared)?),
                protocol: Some(port.protocol.clone()),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect();
    ports.sort();
    (!ports.is_empty()).then(|| ports.into())
}

/// The number of the declared port that a Service's port means.
fn meant(port: &ServicePort, declared: &[DeclaredPort]) -> Option<u16> {
    let mut declared = declared.iter().filter(|own| own.protocol == port.protocol);
    let found = declared.find(|own| match &port.target {
        TargetPort::Name(name) => own.name == *name,
        TargetPort::Number(number) => own.port.get() == *number,
    });
    found.map(|own| own.port.get())
}
