//! A Node (v1).

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;

use super::{
    address::{Address, Range},
    metadata::Metadata,
    null,
};

/// The taint of a node that the cluster autoscaler is about to remove.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// The port of a kubelet whose Node has none.
const KUBELET: u16 = 10250;

/// A Node, reduced to the fields that are read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "RawNode")]
pub struct Node {
    /// Its name.
    pub name: Box<str>,
    /// Its zone, if it has a label with one.
    pub zone: Option<Box<str>>,
    /// Its primary address of each family.
    pub addresses: PrimaryAddresses,
    /// All of its addresses, internal ones first.
    pub all_addresses: Vec<IpAddr>,
    /// The first range of each family that its pods have their addresses of.
    pub pod_cidrs: Vec<IpNet>,
    /// The port that its kubelet listens at, at all of its addresses.
    pub kubelet_port: u16,
    /// True if load balancers may send it new connections: it is neither being deleted nor about
    /// to be.
    pub eligible: bool,
}

/// The primary address of each family: the first internal one, else the first external one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrimaryAddresses {
    /// Of IPv4.
    pub v4: Option<IpAddr>,
    /// Of IPv6.
    pub v6: Option<IpAddr>,
}

impl PrimaryAddresses {
    /// The addresses that there are.
    pub fn iter(self) -> impl Iterator<Item = IpAddr> {
        [self.v4, self.v6].into_iter().flatten()
    }

    /// These, with `address` as the one of its family.
    #[must_use]
    pub(crate) const fn with(self, address: Option<IpAddr>) -> Self {
        match address {
            Some(IpAddr::V4(_)) => Self {
                v4: address,
                ..self
            },
            Some(IpAddr::V6(_)) => Self {
                v6: address,
                ..self
            },
            None => self,
        }
    }

    /// That of a family.
    pub const fn of(self, ipv4: bool) -> Option<IpAddr> {
        if ipv4 { self.v4 } else { self.v6 }
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawNode {
    #[serde(default)]
    pub(crate) metadata: Metadata,
    #[serde(default)]
    spec: RawSpec,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    #[serde(rename = "podCIDRs", deserialize_with = "null::or_default")]
    pod_cidrs: Vec<Range>,
    #[serde(deserialize_with = "null::or_default")]
    taints: Vec<RawTaint>,
}

#[derive(Debug, Clone, Deserialize)]
struct RawTaint {
    #[serde(default)]
    key: Box<str>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    #[serde(deserialize_with = "null::or_default")]
    addresses: Vec<RawAddress>,
    #[serde(rename = "daemonEndpoints", deserialize_with = "null::or_default")]
    daemons: RawDaemons,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RawDaemons {
    #[serde(rename = "kubeletEndpoint", deserialize_with = "null::or_default")]
    kubelet: RawDaemon,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RawDaemon {
    #[serde(rename = "Port", deserialize_with = "null::or_default")]
    port: i64,
}

#[derive(Debug, Clone, Deserialize)]
struct RawAddress {
    #[serde(default)]
    r#type: Box<str>,
    #[serde(default)]
    address: Box<str>,
}

impl From<RawNode> for Node {
    fn from(raw: RawNode) -> Self {
        let RawNode {
            metadata,
            spec,
            status,
        } = raw;
        let of_type = |kind: &'static str| {
            let listed = status.addresses.iter();
            let listed = listed.filter(move |address| &*address.r#type == kind);
            listed.filter_map(|address| Address::of(&address.address).ip())
        };
        let first = |ipv4: bool| {
            of_type("InternalIP")
                .chain(of_type("ExternalIP"))
                .find(|ip| ip.is_ipv4() == ipv4)
        };
        let range = |ipv4: bool| {
            let mut ranges = spec.pod_cidrs.iter().filter_map(Range::net);
            ranges.find(|range| range.addr().is_ipv4() == ipv4)
        };
        let labels = metadata.labels.unwrap_or_default();
        Self {
            name: metadata.name.unwrap_or_default(),
            zone: labels.zone.filter(|zone| !zone.is_empty()),
            addresses: PrimaryAddresses {
                v4: first(true),
                v6: first(false),
            },
            all_addresses: of_type("InternalIP").chain(of_type("ExternalIP")).collect(),
            pod_cidrs: [range(true), range(false)].into_iter().flatten().collect(),
            kubelet_port: match u16::try_from(status.daemons.kubelet.port) {
                Ok(0) | Err(_) => KUBELET,
                Ok(port) => port,
            },
            eligible: metadata.deletion_timestamp.is_none()
                && !spec.taints.iter().any(|taint| &*taint.key == TO_BE_DELETED),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(value: Value) -> Node {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_first_internal_address_of_a_family_comes_before_external_ones() {
        let found = node(json!({
            "metadata": { "name": "n", "labels": { "topology.kubernetes.io/zone": "z" } },
            "spec": { "taints": null },
            "status": { "addresses": [
                { "type": "Hostname", "address": "192.0.2.9" },
                { "type": "ExternalIP", "address": "203.0.113.1" },
                { "type": "ExternalIP", "address": "2001:db8::9" },
                { "type": "InternalIP", "address": "192.0.2.1" },
                { "type": "InternalIP", "address": "192.0.2.2" },
            ] },
        }));
        assert_eq!(found.zone.as_deref(), Some("z"));
        let addresses: Vec<_> = found.addresses.iter().map(|ip| ip.to_string()).collect();
        assert_eq!(addresses, ["192.0.2.1", "2001:db8::9"]);
    }

    #[test]
    fn the_first_range_of_a_family_is_its_pods() {
        let of = |spec: Value| {
            let found = node(json!({ "metadata": { "name": "n" }, "spec": spec }));
            let ranges = found.pod_cidrs.iter().map(ToString::to_string);
            ranges.collect::<Vec<_>>()
        };
        let all = ["bad", "fd00:1::/64", "10.1.1.0/24", "10.1.2.0/24"];
        assert_eq!(
            of(json!({ "podCIDRs": all })),
            ["10.1.1.0/24", "fd00:1::/64"]
        );
        assert_eq!(of(json!({ "podCIDRs": null })), [""; 0]);
    }

    #[test]
    fn a_kubelet_that_does_not_say_its_port_has_the_usual_one() {
        for (status, expected) in [
            (json!({}), 10250),
            (json!({ "daemonEndpoints": null }), 10250),
            (
                json!({ "daemonEndpoints": { "kubeletEndpoint": null } }),
                10250,
            ),
            (
                json!({ "daemonEndpoints": { "kubeletEndpoint": { "Port": 0 } } }),
                10250,
            ),
            (
                json!({ "daemonEndpoints": { "kubeletEndpoint": { "Port": -1 } } }),
                10250,
            ),
            (
                json!({ "daemonEndpoints": { "kubeletEndpoint": { "Port": 10251 } } }),
                10251,
            ),
        ] {
            let found = node(json!({ "metadata": { "name": "n" }, "status": status }));
            assert_eq!(found.kubelet_port, expected, "{status}");
        }
    }

    #[test]
    fn an_empty_zone_is_none() {
        let labels = json!({ "topology.kubernetes.io/zone": "" });
        let found = node(json!({ "metadata": { "name": "n", "labels": labels } }));
        assert_eq!(found.zone, None);
    }

    #[test]
    fn a_node_that_leaves_is_not_eligible() {
        for (metadata, taints, eligible) in [
            (json!({}), json!([]), true),
            (json!({}), json!([{ "key": "other" }]), true),
            (json!({}), json!([{ "key": TO_BE_DELETED }]), false),
            (
                json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }),
                json!([]),
                false,
            ),
        ] {
            let found = node(json!({ "metadata": metadata, "spec": { "taints": taints } }));
            assert_eq!(found.eligible, eligible, "{metadata} {taints}");
        }
    }
}
