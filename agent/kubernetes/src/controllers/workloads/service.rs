//! A Service, with what slices are made of.

use std::{collections::BTreeMap, net::IpAddr};

use serde::Deserialize;
use shunt_model::ServiceId;

use crate::{
    objects::{address::Address, metadata::Metadata},
    watch::kind::Kind,
};

/// Labels, or what selects by them.
pub(super) type Labels = BTreeMap<Box<str>, Box<str>>;

/// The values of `trafficDistribution` that prefer the client's zone. A workload has no node, so that the
/// last one prefers no more than that (Kubernetes, staging/src/k8s.io/endpointslice/trafficdist).
const CLOSE: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// As Services and slices name it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    pub(super) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }
}

/// A Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) id: ServiceId,
    /// The uid, which no other Service has or had.
    pub(super) uid: Box<str>,
    pub(super) labels: Labels,
    /// `None`: it selects nothing; an empty one selects everything.
    pub(super) selector: Option<Labels>,
    /// True if it is an alias of the DNS, without endpoints.
    pub(super) is_external_name: bool,
    pub(super) is_headless: bool,
    /// Its ClusterIPs.
    pub(super) cluster_ips: Vec<IpAddr>,
    /// True if it is being deleted.
    pub(super) is_terminating: bool,
    pub(super) publishes_not_ready: bool,
    /// True if it asks for endpoints of the client's own zone.
    pub(super) prefers_zone: bool,
    /// In order. A Service that has none here has both.
    pub(super) families: Vec<Family>,
    pub(super) ports: Vec<ServicePort>,
}

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServicePort {
    /// Empty if it has none.
    pub(super) name: Box<str>,
    pub(super) protocol: Box<str>,
    pub(super) target: TargetPort,
    /// Protocol of its clients, if it names one.
    pub(super) app_protocol: Option<Box<str>>,
}

/// Port of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TargetPort {
    Number(u16),
    Name(Box<str>),
}

impl Service {
    /// Returns whether these labels are those that it selects.
    pub(super) fn selects(&self, labels: &Labels) -> bool {
        let Some(selector) = &self.selector else {
            return false;
        };
        selector
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    }

    /// Returns whether it may have slices of workloads at all.
    pub(super) const fn has_endpoints(&self) -> bool {
        !self.is_external_name && self.selector.is_some()
    }
}

/// Services, all of them.
#[derive(Debug)]
pub(super) struct AllServices;

impl Kind for AllServices {
    type Raw = RawService;
    type Object = Service;
    const NAME: &'static str = "Services";
    const PATH: &'static str = "/api/v1/services";
    const OPTIONAL: bool = false;

    fn metadata(raw: &RawService) -> &Metadata {
        &raw.metadata.common
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct RawService {
    #[serde(default)]
    metadata: RawMetadata,
    #[serde(default)]
    spec: RawSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct RawMetadata {
    #[serde(flatten)]
    common: Metadata,
    #[serde(default)]
    labels: Option<Labels>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    r#type: Option<Box<str>>,
    selector: Option<Labels>,
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<Box<str>>,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Option<Vec<Box<str>>>,
    ip_families: Option<Vec<Box<str>>>,
    publish_not_ready_addresses: bool,
    traffic_distribution: Option<Box<str>>,
    ports: Option<Vec<RawPort>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPort {
    name: Option<Box<str>>,
    protocol: Option<Box<str>>,
    app_protocol: Option<Box<str>>,
    port: u16,
    target_port: Option<RawTarget>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum RawTarget {
    Number(u16),
    Name(Box<str>),
}

impl From<RawService> for Service {
    fn from(raw: RawService) -> Self {
        let RawService {
            metadata: RawMetadata { common, labels },
            spec,
        } = raw;
        let RawSpec {
            r#type,
            selector,
            cluster_ip,
            cluster_ips,
            ip_families,
            publish_not_ready_addresses,
            traffic_distribution,
            ports,
        } = spec;
        let families = ip_families.unwrap_or_default();
        let families: Vec<Family> = families
            .iter()
            .filter_map(|name| Family::of_name(name))
            .collect();
        Self {
            uid: common.uid().into(),
            is_terminating: common.is_terminating(),
            prefers_zone: common.prefers_zones()
                || traffic_distribution.is_some_and(|text| CLOSE.contains(&&*text)),
            id: ServiceId {
                namespace: common.namespace.unwrap_or_default(),
                name: common.name.unwrap_or_default(),
            },
            labels: labels.unwrap_or_default(),
            selector,
            is_external_name: r#type.as_deref() == Some("ExternalName"),
            is_headless: cluster_ip.as_deref() == Some("None"),
            cluster_ips: cluster_ip
                .iter()
                .chain(cluster_ips.iter().flatten())
                .filter_map(|text| Address::of(text).ip())
                .collect(),
            publishes_not_ready: publish_not_ready_addresses,
            families: if families.is_empty() {
                Family::ALL.into()
            } else {
                families
            },
            ports: ports
                .unwrap_or_default()
                .into_iter()
                .map(Into::into)
                .collect(),
        }
    }
}

impl From<RawPort> for ServicePort {
    fn from(raw: RawPort) -> Self {
        let RawPort {
            name,
            protocol,
            app_protocol,
            port,
            target_port,
        } = raw;
        Self {
            app_protocol,
            name: name.unwrap_or_default(),
            protocol: protocol.unwrap_or_else(|| "TCP".into()),
            target: match target_port {
                Some(RawTarget::Name(name)) if !name.is_empty() => TargetPort::Name(name),
                Some(RawTarget::Number(number)) if number != 0 => TargetPort::Number(number),
                // One without it means its own number.
                _ => TargetPort::Number(port),
            },
        }
    }
}
