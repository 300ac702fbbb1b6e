//! Why a row is another one here, if it is on purpose.

use crate::{
    cases::{Case, Flow},
    node::Found,
};

/// Why the verdict or the endpoints of a row are others.
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

/// Why the source that backends see is another.
pub(crate) fn of_source(case: &Case, flow: &Flow, found: &Found) -> Option<&'static str> {
    let config = &case.config;
    match (flow.is_masqueraded, found.is_masqueraded) {
        (true, false) if config.is_of_node(flow.source) => {
            Some("the node's own connections have a source of the node's from the start")
        }
        (true, false) => Some("the backend is on this node: replies come by here by themselves"),
        (false, true) if config.detect_local.is_none() => {
            Some("nobody says who is a pod: the reply of a backend elsewhere must come by here")
        }
        (false, true) if config.is_of_pod(flow.source) => {
            Some("the pod may be another node's, and the backend is elsewhere")
        }
        _ => None,
    }
}
