//! The endpoints that a Service is to have of workloads: a pure function of both.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};

use crate::{
    controllers::workloads::{
        service::{Family, Labels, Service, ServicePort, TargetPort},
        slice::{
            Conditions, Endpoint, EndpointPort, HEADLESS, MANAGED_BY, MANAGER, Ports, SERVICE_NAME,
            Target,
        },
    },
    source::kubernetes::objects::external_workload::{Body, ExternalWorkload, Group, WorkloadKey},
};

/// The label of an object that says in which zone it is.
const ZONE: &str = "topology.kubernetes.io/zone";

/// The longest label of the DNS.
const LONGEST_LABEL: usize = 63;

/// What the slices of a Service are to say.
#[derive(Debug, Default)]
pub(super) struct Desired {
    /// The endpoints by family and ports, and there by their identity.
    pub(super) families: BTreeMap<Family, Groups>,
    /// The selected workloads that are no endpoints, and why.
    pub(super) left_out: BTreeMap<Arc<WorkloadKey>, LeftOut>,
}

/// Endpoints by their ports, and there by their identity.
pub(super) type Groups = BTreeMap<Ports, BTreeMap<Box<str>, Arc<Endpoint>>>;

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
    pub(super) fn of<'a>(
        service: &Service,
        workloads: impl Iterator<Item = &'a ExternalWorkload>,
    ) -> Self {
        let mut desired = Self::default();
        for family in &service.families {
            desired.families.entry(*family).or_default();
        }
        // Most workloads of a Service have the same ports.
        let mut known: HashMap<Vec<EndpointPort>, Ports> = HashMap::new();
        for workload in workloads {
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
            let Some(ports) = endpoint_ports(service, body) else {
                left_out(LeftOut::NoMatchingPort);
                continue;
            };
            let shared = |ports: &Vec<EndpointPort>| Ports::from(&**ports);
            let ports = known.entry(ports).or_insert_with_key(shared);
            for (family, groups) in &mut desired.families {
                let Some(endpoint) = endpoint(service, workload, body, *family) else {
                    continue;
                };
                let group = groups.entry(Arc::clone(ports)).or_default();
                group.insert(endpoint.identity.clone(), Arc::new(endpoint));
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

/// The ports of a workload that the Service's ports mean, sorted; `None`: it means none.
fn endpoint_ports(service: &Service, body: &Body) -> Option<Vec<EndpointPort>> {
    if service.is_headless && service.ports.is_empty() {
        return Some(Vec::new());
    }
    let ports = service.ports.iter();
    let mut ports: Vec<EndpointPort> = ports
        .filter_map(|port| {
            Some(EndpointPort {
                name: (!port.name.is_empty()).then(|| port.name.clone()),
                port: Some(meant(port, body)?),
                protocol: Some(port.protocol.clone()),
                app_protocol: None,
            })
        })
        .collect();
    ports.sort();
    (!ports.is_empty()).then_some(ports)
}

/// The number of the declared port that a Service's port means.
fn meant(port: &ServicePort, body: &Body) -> Option<u16> {
    let mut declared = body
        .ports
        .iter()
        .filter(|own| own.protocol == port.protocol);
    let found = declared.find(|own| match &port.target {
        TargetPort::Name(name) => own.name == *name,
        TargetPort::Number(number) => own.port.get() == *number,
    });
    found.map(|own| own.port.get())
}

/// The workload as an endpoint of this family, if it has an address of it.
fn endpoint(
    service: &Service,
    workload: &ExternalWorkload,
    body: &Body,
    family: Family,
) -> Option<Endpoint> {
    let ips = body.ips.iter().filter(|ip| match family {
        Family::V4 => ip.is_ipv4(),
        Family::V6 => ip.is_ipv6(),
    });
    let addresses: Vec<Box<str>> = ips.map(IpAddr::to_string).map(Into::into).collect();
    if addresses.is_empty() {
        return None;
    }
    let ExternalWorkload {
        key,
        uid,
        labels,
        is_terminating,
        is_ready,
        ..
    } = workload;
    let conditions = Conditions {
        ready: Some(service.publishes_not_ready || *is_ready && !*is_terminating),
        serving: Some(*is_ready),
        terminating: Some(*is_terminating),
    };
    let hostname = service.is_headless && is_label(&key.name);
    let target = Target {
        // As linkerd's clients know it; ours is told apart by it.
        api_version: match key.group {
            Group::Shunt => Some(key.group.api_version().into()),
            Group::Linkerd => None,
        },
        kind: "ExternalWorkload".into(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: uid.clone(),
    };
    Some(Endpoint::new(
        addresses,
        conditions,
        hostname.then(|| key.name.clone()),
        labels.get(ZONE).cloned(),
        target,
    ))
}

/// Whether it may be a hostname, which a name of an object with dots in it may not.
fn is_label(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=LONGEST_LABEL).contains(&name.len())
        && name.chars().all(is_inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}
