//! Reasons for intended differences of rows.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use crate::{
    cases::{Case, Flow},
    node::Found,
};

/// Returns the reason for another verdict or other endpoints of a row.
pub(crate) fn of_verdict(case: &Case, flow: &Flow, found: &Found) -> Option<&'static str> {
    let is_iptables = case.backend == "iptables";
    match (flow.verdict.as_str(), found.verdict) {
        ("untouched", "dnat") if flow.destination.is_loopback() => {
            Some("processes of the node have NodePorts at loopback addresses")
        }
        ("untouched", "reject" | "drop") if is_iptables => {
            Some("iptables mode has no guard of ClusterIPs")
        }
        ("reject", "drop") if is_iptables => {
            Some("in iptables mode source ranges count with endpoints alone")
        }
        ("accept", "untouched") if is_iptables => {
            Some("iptables mode accepts health checks where others may not")
        }
        _ => None,
    }
}

/// Returns the reason for another source that backends see.
pub(crate) fn of_source(case: &Case, flow: &Flow, found: &Found) -> Option<&'static str> {
    let config = &case.config;
    match (flow.is_masqueraded, found.is_masqueraded) {
        (true, false) if config.is_of_node(flow.source) => {
            Some("the node's own connections have a source of the node's from the start")
        }
        (true, false) if are_here(case, found) => {
            Some("the backend is on this node: replies come by here by themselves")
        }
        (false, true) if config.detect_local.is_none() => {
            Some("nobody says who is a pod: the reply of a backend elsewhere must come by here")
        }
        (false, true) if config.is_of_pod(flow.source) => {
            Some("the pod may be another node's, and the backend is elsewhere")
        }
        _ => None,
    }
}

/// Returns whether all endpoints that may answer are on this node, by the slices.
fn are_here(case: &Case, found: &Found) -> bool {
    let name = case.config.node_name.as_str();
    let slices = case.objects.endpoint_slices.iter();
    let endpoints = slices.flat_map(|slice| &slice.endpoints);
    let here = endpoints.filter(|endpoint| endpoint.node.as_deref() == Some(name));
    let here: BTreeSet<IpAddr> = here.map(|endpoint| endpoint.ip).collect();
    let mut found = found.endpoints.iter();
    found.all(|endpoint| here.contains(&endpoint.parse::<SocketAddr>().unwrap().ip()))
}
