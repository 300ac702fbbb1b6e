//! The recorded cases.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    net::IpAddr,
    path::Path,
};

use ipnet::IpNet;
use serde::Deserialize;
use shunt_kubernetes::{EndpointSlice, Service};
use shunt_model::{FrontendKey, Protocol};
use shunt_skip::skip;

/// A state of a cluster, and flows on one of its nodes.
#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) test: String,
    pub(crate) step: String,
    /// kube-proxy's mode.
    pub(crate) backend: String,
    pub(crate) config: Config,
    pub(crate) objects: Objects,
    pub(crate) flows: Vec<Flow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Config {
    pub(crate) node_name: String,
    #[serde(rename = "nodeIP")]
    pub(crate) node_ip: IpAddr,
    #[serde(rename = "localIPs")]
    pub(crate) local_ips: BTreeSet<IpAddr>,
    pub(crate) detect_local: Option<DetectLocal>,
    pub(crate) masquerade_all: bool,
    pub(crate) topology_labels: BTreeMap<String, String>,
    #[serde(rename = "serviceCIDRs")]
    pub(crate) service_cidrs: Option<Vec<IpNet>>,
    node_port_addresses: Option<Vec<IpNet>>,
}

#[derive(Deserialize)]
pub(crate) struct DetectLocal {
    pub(crate) cidr: IpNet,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Objects {
    pub(crate) services: Vec<Service>,
    pub(crate) endpoint_slices: Vec<EndpointSlice>,
}

/// A packet that begins a connection, and what becomes of it with kube-proxy.
#[derive(Deserialize)]
pub(crate) struct Flow {
    pub(crate) name: String,
    #[serde(rename = "sourceIP")]
    pub(crate) source: IpAddr,
    #[serde(rename = "destIP")]
    pub(crate) destination: IpAddr,
    pub(crate) protocol: String,
    #[serde(rename = "destPort")]
    pub(crate) port: u16,
    pub(crate) endpoints: BTreeSet<String>,
    pub(crate) verdict: String,
    /// True if any of the endpoints would see another source.
    #[serde(rename = "masq")]
    pub(crate) is_masqueraded: bool,
}

/// All cases; `None`, with a message, if their place is not set.
pub(crate) fn cases() -> Option<Vec<Case>> {
    let Some(folder) = env::var_os("SHUNT_CASES") else {
        skip("SHUNT_CASES names no folder of recorded cases");
        return None;
    };
    let text = fs::read_to_string(Path::new(&folder).join("kube-proxy-flows.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_str(&text).unwrap();
    assert!(!cases.is_empty());
    Some(cases)
}

impl Flow {
    /// Returns the key of the frontend that the client connects to.
    pub(crate) fn key(&self) -> FrontendKey {
        FrontendKey {
            address: self.destination,
            port: self.port,
            protocol: match self.protocol.as_str() {
                "TCP" => Protocol::Tcp,
                "UDP" => Protocol::Udp,
                "SCTP" => Protocol::Sctp,
                other => panic!("an unknown protocol: {other}"),
            },
        }
    }
}

impl Config {
    /// Returns the node's addresses that carry NodePorts.
    pub(crate) fn node_port_addresses(&self) -> BTreeSet<IpAddr> {
        let ranges = self.node_port_addresses.as_deref().unwrap_or_default();
        let says_nothing = |ipv4: bool| {
            let mut own = ranges
                .iter()
                .filter(|range| range.addr().is_ipv4() == ipv4)
                .peekable();
            own.peek().is_none() || own.any(|range| range.prefix_len() == 0)
        };
        let carries = |address: &IpAddr| {
            says_nothing(address.is_ipv4()) || ranges.iter().any(|range| range.contains(address))
        };
        self.local_ips.iter().copied().filter(carries).collect()
    }

    /// Returns whether the client is a process of the node.
    pub(crate) fn is_of_node(&self, client: IpAddr) -> bool {
        client.is_loopback() || self.local_ips.contains(&client)
    }

    /// Returns whether the client is known to be a pod.
    pub(crate) fn is_of_pod(&self, client: IpAddr) -> bool {
        let pods = self.detect_local.as_ref();
        pods.is_some_and(|pods| pods.cidr.contains(&client))
    }
}
