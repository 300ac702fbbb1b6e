//! kube-proxy's configuration, `kubeproxy.config.k8s.io/v1alpha1`, as Kubernetes 1.34 has it
//! (`staging/src/k8s.io/kube-proxy/config/v1alpha1/types.go`). Every field may be left out or `null`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use shunt_runtime::GoDuration;

/// The form that is understood.
pub(crate) const API_VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";

/// Its kind.
pub(crate) const KIND: &str = "KubeProxyConfiguration";

/// A section of the configuration: all its fields are optional.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
        #[serde(default, rename_all = "camelCase")]
        pub(crate) struct $name {
            $(
                $(#[$attribute])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub(crate) $field: Option<$type>,
            )*
        }
    };
}

section! {
    /// The whole of it.
    KubeProxyConfiguration {
        api_version: String,
        kind: String,
        feature_gates: BTreeMap<String, bool>,
        client_connection: ClientConnection,
        logging: Logging,
        hostname_override: String,
        bind_address: String,
        healthz_bind_address: String,
        metrics_bind_address: String,
        bind_address_hard_fail: bool,
        enable_profiling: bool,
        show_hidden_metrics_for_version: String,
        mode: String,
        iptables: Iptables,
        ipvs: Ipvs,
        nftables: Nftables,
        winkernel: Winkernel,
        detect_local_mode: String,
        detect_local: DetectLocal,
        #[serde(rename = "clusterCIDR")]
        cluster_cidr: String,
        node_port_addresses: Vec<String>,
        oom_score_adj: i32,
        conntrack: Conntrack,
        config_sync_period: GoDuration,
        port_range: String,
        windows_run_as_service: bool,
    }
}

section! {
    /// The connection to the API server.
    ClientConnection {
        kubeconfig: String,
        accept_content_types: String,
        content_type: String,
        qps: f64,
        burst: i32,
    }
}

section! {
    /// The log's settings.
    Logging {
        format: String,
        flush_frequency: FlushFrequency,
        verbosity: u32,
        vmodule: Vec<Vmodule>,
        options: serde_json::Map<String, serde_json::Value>,
    }
}

section! {
    /// The log's verbosity for a file.
    Vmodule {
        file_pattern: String,
        verbosity: u32,
    }
}

/// Interval at which the log is flushed: a duration, or a number of nanoseconds.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum FlushFrequency {
    Nanoseconds(i64),
    Duration(GoDuration),
}

section! {
    /// Section of the mode `iptables`.
    Iptables {
        masquerade_bit: i32,
        masquerade_all: bool,
        localhost_node_ports: bool,
        sync_period: GoDuration,
        min_sync_period: GoDuration,
    }
}

section! {
    /// Section of the mode `nftables`.
    Nftables {
        masquerade_bit: i32,
        masquerade_all: bool,
        sync_period: GoDuration,
        min_sync_period: GoDuration,
    }
}

section! {
    /// Section of the mode `ipvs`.
    Ipvs {
        sync_period: GoDuration,
        min_sync_period: GoDuration,
        scheduler: String,
        #[serde(rename = "excludeCIDRs")]
        exclude_cidrs: Vec<String>,
        #[serde(rename = "strictARP")]
        strict_arp: bool,
        tcp_timeout: GoDuration,
        tcp_fin_timeout: GoDuration,
        udp_timeout: GoDuration,
    }
}

section! {
    /// Section of Windows.
    Winkernel {
        network_name: String,
        source_vip: String,
        #[serde(rename = "enableDSR")]
        enable_dsr: bool,
        root_hns_endpoint_name: String,
        forward_health_check_vip: bool,
    }
}

section! {
    /// The interfaces by which pods of this node are known.
    DetectLocal {
        bridge_interface: String,
        interface_name_prefix: String,
    }
}

section! {
    /// Section of the kernel's connection tracking.
    Conntrack {
        max_per_core: i32,
        min: i32,
        tcp_established_timeout: GoDuration,
        tcp_close_wait_timeout: GoDuration,
        tcp_be_liberal: bool,
        udp_timeout: GoDuration,
        udp_stream_timeout: GoDuration,
    }
}
