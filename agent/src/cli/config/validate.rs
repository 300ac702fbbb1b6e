//! The values that a configuration may have, by kube-proxy's own rules
//! (`pkg/proxy/apis/config/validation/validation.go`). A field without effect may have any value.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use shunt_runtime::GoDuration;

use crate::cli::config::v1alpha1::KubeProxyConfiguration;

const NOTHING: GoDuration = GoDuration::seconds(0);

/// Returns the faults, each with its field.
#[expect(
    clippy::too_many_lines,
    reason = "one rule after the other, in the order of the fields"
)]
pub(crate) fn complaints(configuration: &KubeProxyConfiguration) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut expect = |is_right: bool, field: &str, rule: &str| {
        if !is_right {
            complaints.push(format!("{field}: {rule}"));
        }
    };
    let KubeProxyConfiguration {
        bind_address,
        healthz_bind_address,
        metrics_bind_address,
        mode,
        detect_local_mode,
        detect_local,
        cluster_cidr,
        node_port_addresses,
        oom_score_adj,
        conntrack,
        ..
    } = configuration;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let address = text(bind_address);
    expect(
        address.is_empty() || address.parse::<IpAddr>().is_ok(),
        "bindAddress",
        "must be an IP address",
    );
    for (field, address) in [
        ("healthzBindAddress", healthz_bind_address),
        ("metricsBindAddress", metrics_bind_address),
    ] {
        expect(
            is_listener(&text(address)),
            field,
            "must be IP:port, as in 0.0.0.0:10256",
        );
    }
    let mode = text(mode);
    expect(
        ["", "iptables", "ipvs", "nftables"].contains(&&*mode),
        "mode",
        "must be iptables, ipvs, nftables or empty",
    );
    let detector = text(detect_local_mode);
    expect(
        [
            "",
            "ClusterCIDR",
            "NodeCIDR",
            "BridgeInterface",
            "InterfaceNamePrefix",
        ]
        .contains(&&*detector),
        "detectLocalMode",
        "must be ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix or empty",
    );
    let detect_local = detect_local.clone().unwrap_or_default();
    for (wanted, field, name) in [
        (
            "BridgeInterface",
            "detectLocal.bridgeInterface",
            detect_local.bridge_interface,
        ),
        (
            "InterfaceNamePrefix",
            "detectLocal.interfaceNamePrefix",
            detect_local.interface_name_prefix,
        ),
    ] {
        let is_empty = name.is_none_or(|name| name.is_empty());
        let rule = format!("must be said if detectLocalMode is {wanted}");
        expect(detector != wanted || !is_empty, field, &rule);
    }
    expect(
        are_cluster_cidrs(&text(cluster_cidr)),
        "clusterCIDR",
        "must be one CIDR, or one of each family: 10.100.0.0/16,fde4:8dba:82e1::/48",
    );
    let addresses = node_port_addresses.clone().unwrap_or_default();
    expect(
        addresses == ["primary"] || addresses.iter().all(|cidr| cidr.parse::<IpNet>().is_ok()),
        "nodePortAddresses",
        "must be CIDRs, or `primary` alone",
    );
    expect(
        oom_score_adj.is_none_or(|score| (-1000..=1000).contains(&score)),
        "oomScoreAdj",
        "must be within -1000 and 1000",
    );
    let conntrack = conntrack.clone().unwrap_or_default();
    for (field, number) in [
        ("maxPerCore", conntrack.max_per_core),
        ("min", conntrack.min),
    ] {
        let field = format!("conntrack.{field}");
        expect(
            number.is_none_or(|number| number >= 0),
            &field,
            "must not be less than 0",
        );
    }
    for (field, timeout) in [
        ("tcpEstablishedTimeout", conntrack.tcp_established_timeout),
        ("tcpCloseWaitTimeout", conntrack.tcp_close_wait_timeout),
        ("udpTimeout", conntrack.udp_timeout),
        ("udpStreamTimeout", conntrack.udp_stream_timeout),
    ] {
        let field = format!("conntrack.{field}");
        expect(
            timeout.is_none_or(|timeout| timeout >= NOTHING),
            &field,
            "must not be less than 0",
        );
    }
    complaints
}

fn is_listener(address: &str) -> bool {
    let has_port = |address: SocketAddr| address.port() != 0;
    // A missing port is filled in.
    address.is_empty()
        || address.parse::<IpAddr>().is_ok()
        || address.parse::<SocketAddr>().is_ok_and(has_port)
}

fn are_cluster_cidrs(text: &str) -> bool {
    if text.is_empty() {
        return true;
    }
    let cidrs: Result<Vec<IpNet>, _> = text.split(',').map(str::parse).collect();
    match cidrs.as_deref() {
        Ok([_]) => true,
        Ok([one, other]) => one.addr().is_ipv4() != other.addr().is_ipv4(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
