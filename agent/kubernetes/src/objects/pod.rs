//! A Pod (v1).

use std::{collections::BTreeSet, net::IpAddr, num::NonZeroU16, sync::Arc};

use serde::Deserialize;
use shunt_model::{
    HostPort, Phase, Workload, WorkloadId, WorkloadKind, WorkloadOwner, WorkloadPort, unusable,
};

use super::{
    address::Address,
    labels::Labels,
    linkerd_proxy::{inbound_port, is_proxy, mesh},
    metadata::Metadata,
    names::SharedName,
    null,
    opaque_ports::opaque_ports,
    service::protocol,
};

/// A Pod, reduced to the fields that are read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "RawPod")]
pub(crate) struct Pod {
    /// Its identity.
    pub(crate) id: Arc<WorkloadId>,
    /// Its workload for lookups; `None`: it has ended, and has given its addresses back.
    pub(crate) workload: Option<Arc<Workload>>,
    /// All its labels.
    pub(crate) labels: Labels,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawPod {
    #[serde(default)]
    pub(crate) metadata: RawMetadata,
    #[serde(default)]
    spec: RawSpec,
    #[serde(default)]
    status: RawStatus,
}

/// The metadata, with the owners and all labels besides: those of most other kinds are not needed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawMetadata {
    #[serde(flatten)]
    pub(crate) common: Metadata,
    labels: Labels,
    #[serde(deserialize_with = "null::or_default")]
    owner_references: Vec<RawOwner>,
}

#[derive(Debug, Clone, Deserialize)]
struct RawOwner {
    kind: SharedName,
    name: SharedName,
    #[serde(default)]
    controller: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    node_name: Option<SharedName>,
    service_account_name: Option<SharedName>,
    host_network: Option<bool>,
    #[serde(deserialize_with = "null::or_default")]
    init_containers: Vec<RawContainer>,
    #[serde(deserialize_with = "null::or_default")]
    containers: Vec<RawContainer>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RawContainer {
    #[serde(rename = "name", deserialize_with = "is_proxy")]
    is_proxy: bool,
    #[serde(rename = "env", deserialize_with = "inbound_port")]
    inbound_port: Option<NonZeroU16>,
    #[serde(deserialize_with = "null::or_default")]
    ports: Vec<RawPort>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPort {
    name: Option<SharedName>,
    protocol: Option<Box<str>>,
    container_port: u32,
    host_port: u32,
    #[serde(rename = "hostIP")]
    host_ip: Option<Address>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    phase: Box<str>,
    #[serde(rename = "podIP")]
    pod_ip: Option<Address>,
    #[serde(rename = "podIPs", deserialize_with = "null::or_default")]
    pod_ips: Vec<RawIp>,
    #[serde(rename = "hostIP")]
    host_ip: Option<Address>,
    #[serde(rename = "hostIPs", deserialize_with = "null::or_default")]
    host_ips: Vec<RawIp>,
}

#[derive(Debug, Clone, Deserialize)]
struct RawIp {
    #[serde(default)]
    ip: Option<Address>,
}

impl From<RawPod> for Pod {
    fn from(raw: RawPod) -> Self {
        let RawPod {
            metadata:
                RawMetadata {
                    common: metadata,
                    labels,
                    owner_references,
                },
            spec,
            status,
        } = raw;
        let id = Arc::new(WorkloadId {
            kind: WorkloadKind::Pod,
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
        });
        let phase = match &*status.phase {
            "Succeeded" | "Failed" => {
                return Self {
                    id,
                    workload: None,
                    labels,
                };
            }
            _ if metadata.deletion_timestamp.is_some() => Phase::Terminating,
            "Pending" => Phase::Pending,
            _ => Phase::Running,
        };
        let on_host = spec.host_network.unwrap_or_default();
        let containers = || spec.init_containers.iter().chain(&spec.containers);
        let ports = containers().flat_map(|container| &container.ports);
        let declared: Vec<&RawPort> = ports.collect();
        let ports: BTreeSet<WorkloadPort> = declared.iter().filter_map(|port| port.own()).collect();
        let host_ips = addresses(status.host_ip, status.host_ips);
        let host_ports: BTreeSet<HostPort> = declared
            .iter()
            .flat_map(|port| port.at_host(on_host, &host_ips))
            .collect();
        let proxy = containers().find(|container| container.is_proxy);
        let mesh = mesh(
            &labels,
            metadata.annotations.as_ref(),
            spec.service_account_name,
            proxy.and_then(|container| container.inbound_port),
        );
        let annotation = metadata.annotations.and_then(|own| own.opaque_ports);
        let named = ports.iter().map(|port| (&*port.name, port.port.get()));
        let opaque_ports = annotation.map(|text| opaque_ports(&text, &named).into_iter().collect());
        let mut owners = owner_references.into_iter();
        let owner = owners.find(|owner| owner.controller == Some(true));
        let workload = Workload {
            id: Arc::clone(&id),
            ips: if on_host {
                Box::default()
            } else {
                addresses(status.pod_ip, status.pod_ips).into()
            },
            ports: ports.into_iter().collect(),
            host_ports: host_ports.into_iter().collect(),
            node: spec.node_name.map(|SharedName(name)| name),
            phase,
            // It comes and goes with each probe, and services have it of their endpoints.
            ready: None,
            owner: owner.map(|owner| WorkloadOwner {
                kind: owner.kind.0,
                name: owner.name.0,
            }),
            opaque_ports,
            policy_opaque_ports: Box::default(),
            mesh,
        };
        Self {
            id,
            workload: Some(Arc::new(workload)),
            labels,
        }
    }
}

impl RawPort {
    /// The port on the pod's own addresses.
    fn own(&self) -> Option<WorkloadPort> {
        Some(WorkloadPort {
            name: self
                .name
                .as_ref()
                .map_or_else(Arc::default, |name| Arc::clone(&name.0)),
            port: number(self.container_port)?,
            protocol: protocol(self.protocol.as_deref())?,
        })
    }

    /// Returns its places on the node. A pod in the node's network has each of its ports there.
    fn at_host(&self, on_host: bool, host_ips: &[IpAddr]) -> Vec<HostPort> {
        let host_port = number(self.host_port);
        let port = host_port.or_else(|| number(self.container_port).filter(|_| on_host));
        let (Some(port), Some(protocol)) = (port, protocol(self.protocol.as_deref())) else {
            return Vec::new();
        };
        // One that is all addresses means nothing.
        let said = self.host_ip.as_ref().and_then(Address::ip);
        let said = said.filter(|ip| unusable(*ip).is_none());
        let ips = said.as_ref().map_or(host_ips, std::slice::from_ref);
        let at = |ip: &IpAddr| HostPort {
            ip: *ip,
            port,
            protocol,
        };
        ips.iter().map(at).collect()
    }
}

/// Returns the addresses of the list, or the single one where there is none; each once, without
/// those that lead nowhere.
fn addresses(single: Option<Address>, list: Vec<RawIp>) -> Vec<IpAddr> {
    let listed = list.into_iter().filter_map(|raw| raw.ip);
    let mut found = Vec::new();
    for address in listed.chain(single) {
        if let Some(ip) = address.ip()
            && unusable(ip).is_none()
            && !found.contains(&ip)
        {
            found.push(ip);
        }
    }
    found
}

fn number(port: u32) -> Option<NonZeroU16> {
    NonZeroU16::new(port.try_into().ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use shunt_model::Protocol;

    use super::*;

    fn pod(value: Value) -> Workload {
        let pod: Pod = serde_json::from_value(value).unwrap();
        Workload::clone(&pod.workload.unwrap())
    }

    fn host_ports(workload: &Workload) -> Vec<String> {
        let shown = |port: &HostPort| format!("{}:{}/{}", port.ip, port.port, port.protocol);
        workload.host_ports.iter().map(shown).collect()
    }

    #[test]
    fn a_pod_is_reduced_to_where_it_answers() {
        let found = pod(json!({
            "metadata": {
                "namespace": "default", "name": "web-1", "uid": "u",
                "annotations": { "config.linkerd.io/opaque-ports": "db, 25,3306-3310,x,9-1," },
                "ownerReferences": [
                    { "kind": "Other", "name": "o" },
                    { "kind": "ReplicaSet", "name": "web", "controller": true },
                ],
            },
            "spec": {
                "nodeName": "node-a",
                "initContainers": [{ "ports": [{ "containerPort": 90 }] }],
                "containers": [
                    { "name": "a", "ports": [
                        { "name": "db", "containerPort": 5432, "hostPort": 15432 },
                        { "containerPort": 53, "protocol": "UDP", "hostPort": 53, "hostIP": "192.0.2.9" },
                        { "containerPort": 1, "protocol": "ICMP", "hostPort": 1 },
                    ] },
                    { "name": "b", "ports": null },
                ],
            },
            "status": {
                "phase": "Running", "podIP": "10.1.1.3", "hostIP": "192.0.2.1",
                "podIPs": [{ "ip": "10.1.1.3" }, { "ip": "fd00::3" }],
                "hostIPs": [{ "ip": "192.0.2.1" }, { "ip": "2001:db8::1" }],
            },
        }));
        assert_eq!(found.id.to_string(), "Pod default/web-1");
        let ips: Vec<_> = found.ips.iter().map(ToString::to_string).collect();
        assert_eq!(ips, ["10.1.1.3", "fd00::3"]);
        assert_eq!(found.node.as_deref(), Some("node-a"));
        assert_eq!((found.phase, found.ready), (Phase::Running, None));
        let ports = found
            .ports
            .iter()
            .map(|port| (port.port.get(), port.protocol));
        let ports: BTreeSet<_> = ports.collect();
        let tcp = Protocol::Tcp;
        let expected = [(90, tcp), (5432, tcp), (53, Protocol::Udp)];
        assert_eq!(ports, BTreeSet::from(expected));
        assert_eq!(
            host_ports(&found),
            [
                "192.0.2.1:15432/TCP",
                "192.0.2.9:53/UDP",
                "[2001:db8::1]:15432/TCP"
            ]
            .map(|text| text.replace(['[', ']'], ""))
        );
        let owner = found.owner.unwrap();
        assert_eq!((&*owner.kind, &*owner.name), ("ReplicaSet", "web"));
        let opaque = found.opaque_ports.unwrap();
        let opaque: Vec<_> = opaque.iter().map(ToString::to_string).collect();
        assert_eq!(opaque, ["25", "3306-3310", "5432"]);
    }

    #[test]
    fn a_pod_in_its_nodes_network_is_where_it_says() {
        let found = pod(json!({
            "metadata": { "namespace": "default", "name": "agent" },
            "spec": { "hostNetwork": true, "containers": [{ "ports": [
                { "containerPort": 9100 }, { "containerPort": 9200, "hostPort": 9200 },
            ] }] },
            "status": { "phase": "Running", "podIP": "192.0.2.1", "hostIP": "192.0.2.1" },
        }));
        assert!(found.ips.is_empty());
        let expected = ["192.0.2.1:9100/TCP", "192.0.2.1:9200/TCP"];
        assert_eq!(host_ports(&found), expected);
    }

    #[test]
    fn a_pods_phase_is_whether_it_has_its_addresses() {
        for (phase, deleted, expected) in [
            ("Running", false, Some(Phase::Running)),
            ("Pending", false, Some(Phase::Pending)),
            ("Running", true, Some(Phase::Terminating)),
            ("Unknown", false, Some(Phase::Running)),
            ("Succeeded", false, None),
            ("Failed", true, None),
        ] {
            let mut metadata = json!({ "namespace": "default", "name": "web-1" });
            if deleted {
                metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            let status = json!({ "phase": phase, "podIP": "10.1.1.3" });
            let pod = json!({ "metadata": metadata, "status": status });
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let found = pod.workload.map(|workload| workload.phase);
            assert_eq!(found, expected, "{phase} {deleted}");
        }
    }
}
