//! A workload, and the endpoints that it is.

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use crate::{
    controllers::workloads::{
        service::{Family, Service},
        slice::{Conditions, Endpoint, Hints, Target},
    },
    objects::external_workload::{Body, ExternalWorkload, Group},
};

/// The label of an object that names its zone.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

/// The longest label of the DNS.
const LONGEST_LABEL: usize = 63;

/// In how many ways a workload is an endpoint: by family, whether the Service is headless, whether it has
/// workloads that are not ready, and whether it prefers zones.
const WAYS: usize = Family::ALL.len() * 2 * 2 * 2;

/// A workload, with the endpoints that it is. Each is made once and shared by all Services and their
/// slices: a Service has thousands of them, of which one is another at a time.
#[derive(Debug)]
pub(super) struct Candidate {
    workload: Arc<ExternalWorkload>,
    endpoints: [OnceLock<Option<Arc<Endpoint>>>; WAYS],
}

impl Candidate {
    pub(super) fn new(workload: ExternalWorkload) -> Self {
        Self {
            workload: Arc::new(workload),
            endpoints: Default::default(),
        }
    }

    /// It with something new of which no other endpoint follows.
    pub(super) fn with(&self, workload: ExternalWorkload) -> Self {
        Self {
            workload: Arc::new(workload),
            endpoints: self.endpoints.clone(),
        }
    }

    pub(super) const fn workload(&self) -> &Arc<ExternalWorkload> {
        &self.workload
    }

    /// It as an endpoint of this family, if it has an address of it.
    pub(super) fn endpoint(&self, service: &Service, family: Family) -> Option<&Arc<Endpoint>> {
        let way = [
            service.is_headless,
            service.publishes_not_ready,
            service.prefers_zone,
        ];
        let way = way.into_iter();
        let way = way.fold(family as usize, |way, is| way * 2 + usize::from(is));
        let made = || {
            let body = self.workload.body.as_ref().ok()?;
            endpoint(service, &self.workload, body, family).map(Arc::new)
        };
        self.endpoints[way].get_or_init(made).as_ref()
    }
}

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
        // As linkerd's clients know it; ours is distinguished by it.
        api_version: match key.group {
            Group::Shunt => Some(key.group.api_version().into()),
            Group::Linkerd => None,
        },
        kind: "ExternalWorkload".into(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: uid.clone(),
    };
    let zone = labels.get(ZONE).filter(|zone| !zone.is_empty());
    let is_ready = conditions.ready == Some(true);
    let hinted = zone.filter(|_| service.prefers_zone && is_ready);
    let endpoint = Endpoint::new(
        addresses,
        conditions,
        hostname.then(|| key.name.clone()),
        zone.cloned(),
        target,
    );
    Some(Endpoint {
        hints: hinted.map(|zone| Box::new(Hints::for_zone(zone))),
        ..endpoint
    })
}

/// Returns whether it may be a hostname, which a name of an object with dots in it may not.
fn is_label(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=LONGEST_LABEL).contains(&name.len())
        && name.chars().all(is_inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}
