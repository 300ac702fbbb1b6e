//! A Service (v1).

use std::{num::NonZeroU16, sync::Arc, time::SystemTime};

use serde::Deserialize;
use shunt_model::{Forwarding, PortRange, Protocol, Selection, ServiceId, TrafficPolicy};

use super::{
    address::{Address, Range},
    metadata::Metadata,
    null,
    opaque_ports::opaque_ports,
};

/// Timeout of the affinity of clients where a Service has none (Kubernetes' `DefaultClientIPServiceAffinitySeconds`).
const DEFAULT_AFFINITY_SECONDS: u32 = 10_800;

/// A Service, reduced to the fields that are read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "RawService")]
pub struct Service {
    /// Its identity.
    pub id: Arc<ServiceId>,
    /// Unique id, which no other Service has or had.
    pub uid: Box<str>,
    /// Time at which it was made, in whole seconds.
    pub created: SystemTime,
    /// Its type, as far as something depends on it.
    pub kind: ServiceKind,
    /// Its cluster IPs, at most one of each family; none of a headless one.
    pub cluster_ips: Vec<Address>,
    /// True if it has no cluster IP and never will: it is known by its name alone.
    pub is_headless: bool,
    /// `spec.externalIPs`; empty texts are none.
    pub external_ips: Vec<Address>,
    /// The addresses of `status.loadBalancer.ingress` that are to be translated here.
    pub load_balancer_ips: Vec<Address>,
    /// `spec.loadBalancerSourceRanges`.
    pub source_ranges: Vec<Range>,
    /// `spec.externalTrafficPolicy`.
    pub external_policy: TrafficPolicy,
    /// `spec.internalTrafficPolicy`.
    pub internal_policy: TrafficPolicy,
    /// In seconds; `None`: there is none.
    pub affinity: Option<u32>,
    /// The annotation `service.shunt.io/selection`; `Err`: what stands there, which is none.
    pub selection: Result<Option<Selection>, Box<str>>,
    /// The annotation `service.shunt.io/forwarding`; `Err`: what stands there, which is none.
    pub forwarding: Result<Option<Forwarding>, Box<str>>,
    /// The annotation `service.shunt.io/masquerade`; `Err`: what stands there, which is none.
    pub masquerade: Result<Option<bool>, Box<str>>,
    /// The annotation `config.linkerd.io/opaque-ports`, with the service's ports in place of their names.
    pub opaque_ports: Option<Arc<[PortRange]>>,
    /// `spec.healthCheckNodePort`.
    pub health_check_node_port: Option<NonZeroU16>,
    /// Its ports, in their order.
    pub ports: Vec<ServicePort>,
}

/// Kind of a Service, by its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServiceKind {
    /// `ClusterIP`, or what is not known.
    #[default]
    ClusterIp,
    /// `NodePort`.
    NodePort,
    /// `LoadBalancer`.
    LoadBalancer,
    /// `ExternalName`: an alias of the DNS, of which there is nothing to translate.
    ExternalName,
}

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name; empty if it has none.
    pub name: Box<str>,
    /// The protocol; `None`: one that there is not.
    pub protocol: Option<Protocol>,
    /// The port on the service's addresses.
    pub port: u16,
    /// The port on the nodes' addresses.
    pub node_port: Option<NonZeroU16>,
}

/// The protocol of that name; without one it is TCP.
pub(crate) fn protocol(name: Option<&str>) -> Option<Protocol> {
    match name {
        None | Some("TCP") => Some(Protocol::Tcp),
        Some("UDP") => Some(Protocol::Udp),
        Some("SCTP") => Some(Protocol::Sctp),
        Some(_) => None,
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawService {
    #[serde(default)]
    pub(crate) metadata: Metadata,
    #[serde(default)]
    spec: RawSpec,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    r#type: Option<Box<str>>,
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<Box<str>>,
    #[serde(rename = "clusterIPs", deserialize_with = "null::or_default")]
    cluster_ips: Vec<Box<str>>,
    #[serde(deserialize_with = "null::or_default")]
    ip_families: Vec<Box<str>>,
    #[serde(rename = "externalIPs", deserialize_with = "null::or_default")]
    external_ips: Vec<Box<str>>,
    #[serde(deserialize_with = "null::or_default")]
    load_balancer_source_ranges: Vec<Range>,
    external_traffic_policy: Option<Box<str>>,
    internal_traffic_policy: Option<Box<str>>,
    session_affinity: Option<Box<str>>,
    session_affinity_config: Option<RawAffinity>,
    health_check_node_port: Option<u32>,
    #[serde(deserialize_with = "null::or_default")]
    ports: Vec<RawPort>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RawAffinity {
    #[serde(rename = "clientIP")]
    client_ip: Option<RawClientIp>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawClientIp {
    timeout_seconds: Option<u32>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPort {
    #[serde(default)]
    name: Option<Box<str>>,
    #[serde(default)]
    protocol: Option<Box<str>>,
    #[serde(default)]
    port: u32,
    #[serde(default)]
    node_port: Option<u32>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    load_balancer: Option<RawLoadBalancer>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RawLoadBalancer {
    #[serde(deserialize_with = "null::or_default")]
    ingress: Vec<RawIngress>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawIngress {
    ip: Option<Box<str>>,
    ip_mode: Option<Box<str>>,
}

impl From<RawService> for Service {
    fn from(raw: RawService) -> Self {
        let RawService {
            metadata,
            spec,
            status,
        } = raw;
        let created = metadata.created();
        let annotations = metadata.annotations.unwrap_or_default();
        let forwarding = annotations
            .forwarding
            .map(|name| Forwarding::of_name(&name).ok_or(name))
            .transpose();
        let masquerade = annotations
            .masquerade
            .map(|text| text.parse().map_err(|_| text))
            .transpose();
        let selection = annotations
            .selection
            .map(|name| Selection::of_name(&name).ok_or(name))
            .transpose();
        let cluster_ips = spec.cluster_ips();
        let is_headless = spec.cluster_ip.as_deref() == Some("None");
        let RawSpec {
            r#type,
            external_ips,
            load_balancer_source_ranges,
            external_traffic_policy,
            internal_traffic_policy,
            session_affinity,
            session_affinity_config,
            health_check_node_port,
            ports,
            cluster_ip: _,
            cluster_ips: _,
            ip_families: _,
        } = spec;
        let ingress = status.load_balancer.unwrap_or_default().ingress.into_iter();
        let captured = ingress.filter(|ingress| {
            let mode = ingress.ip_mode.as_deref();
            mode.is_none_or(|mode| mode == "VIP")
        });
        let policy = |name: Option<Box<str>>| match name.as_deref() {
            Some("Local") => TrafficPolicy::Local,
            _ => TrafficPolicy::Cluster,
        };
        let ports: Vec<ServicePort> = ports.into_iter().map(Into::into).collect();
        let named = ports.iter().map(|port| (&*port.name, port.port));
        let opaque = annotations.opaque_ports;
        let opaque = opaque.map(|text| opaque_ports(&text, &named).into_iter().collect());
        let affinity = session_affinity.as_deref() == Some("ClientIP");
        let timeout = session_affinity_config
            .and_then(|config| config.client_ip?.timeout_seconds)
            .unwrap_or(DEFAULT_AFFINITY_SECONDS);
        Self {
            id: Arc::new(ServiceId {
                namespace: metadata.namespace.unwrap_or_default(),
                name: metadata.name.unwrap_or_default(),
            }),
            uid: metadata.uid.unwrap_or_default(),
            created,
            kind: match r#type.as_deref() {
                Some("NodePort") => ServiceKind::NodePort,
                Some("LoadBalancer") => ServiceKind::LoadBalancer,
                Some("ExternalName") => ServiceKind::ExternalName,
                _ => ServiceKind::ClusterIp,
            },
            cluster_ips,
            is_headless,
            external_ips: addresses(external_ips),
            load_balancer_ips: addresses(captured.filter_map(|ingress| ingress.ip)),
            source_ranges: load_balancer_source_ranges,
            external_policy: policy(external_traffic_policy),
            internal_policy: policy(internal_traffic_policy),
            affinity: affinity.then_some(timeout),
            selection,
            forwarding,
            masquerade,
            opaque_ports: opaque,
            health_check_node_port: health_check_node_port.and_then(port_number),
            ports,
        }
    }
}

impl RawSpec {
    /// One address of each family: those of `clusterIPs` by their index in `ipFamilies`; of an
    /// object that has none of the latter, `clusterIP` alone.
    fn cluster_ips(&self) -> Vec<Address> {
        let Self {
            cluster_ip,
            cluster_ips,
            ip_families,
            ..
        } = self;
        let first = cluster_ip.as_deref().unwrap_or_default();
        if first.is_empty() || first == "None" {
            return Vec::new();
        }
        if ip_families.is_empty() {
            return vec![Address::of(first)];
        }
        let first_of = |family: &str| {
            let index = ip_families.iter().position(|known| **known == *family)?;
            cluster_ips.get(index).map(|text| Address::of(text))
        };
        [first_of("IPv4"), first_of("IPv6")]
            .into_iter()
            .flatten()
            .collect()
    }
}

impl From<RawPort> for ServicePort {
    fn from(raw: RawPort) -> Self {
        let RawPort {
            name,
            protocol: given,
            port,
            node_port,
        } = raw;
        Self {
            name: name.unwrap_or_default(),
            protocol: protocol(given.as_deref()),
            port: port_number(port).map_or(0, NonZeroU16::get),
            node_port: node_port.and_then(port_number),
        }
    }
}

fn port_number(number: u32) -> Option<NonZeroU16> {
    NonZeroU16::new(u16::try_from(number).ok()?)
}

/// The addresses of a list; empty texts are none.
fn addresses(texts: impl IntoIterator<Item = Box<str>>) -> Vec<Address> {
    let texts = texts.into_iter().filter(|text| !text.is_empty());
    texts.map(|text| Address::of(&text)).collect()
}
