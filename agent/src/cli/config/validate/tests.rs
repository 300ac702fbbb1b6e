use serde_json::{Value, json};

use super::*;

fn of(configuration: Value) -> Vec<String> {
    complaints(&serde_json::from_value(configuration).unwrap())
}

#[test]
fn what_kube_proxy_refuses_is_refused() {
    for (configuration, field) in [
        (json!({ "bindAddress": "localhost" }), "bindAddress"),
        (
            json!({ "healthzBindAddress": "0.0.0.0:0" }),
            "healthzBindAddress",
        ),
        (
            json!({ "metricsBindAddress": "here:10249" }),
            "metricsBindAddress",
        ),
        (json!({ "mode": "kernelspace" }), "mode"),
        (json!({ "detectLocalMode": "Guess" }), "detectLocalMode"),
        (
            json!({ "detectLocalMode": "BridgeInterface" }),
            "detectLocal.bridgeInterface",
        ),
        (
            json!({ "detectLocalMode": "InterfaceNamePrefix", "detectLocal": { "interfaceNamePrefix": "" } }),
            "detectLocal.interfaceNamePrefix",
        ),
        (json!({ "clusterCIDR": "10.0.0.0/33" }), "clusterCIDR"),
        (
            json!({ "clusterCIDR": "10.0.0.0/8,11.0.0.0/8" }),
            "clusterCIDR",
        ),
        (
            json!({ "clusterCIDR": "10.0.0.0/8,fd00::/8,fd01::/16" }),
            "clusterCIDR",
        ),
        (
            json!({ "nodePortAddresses": ["primary", "10.0.0.0/8"] }),
            "nodePortAddresses",
        ),
        (
            json!({ "nodePortAddresses": ["10.0.0.1"] }),
            "nodePortAddresses",
        ),
        (json!({ "oomScoreAdj": -1001 }), "oomScoreAdj"),
        (
            json!({ "conntrack": { "maxPerCore": -1 } }),
            "conntrack.maxPerCore",
        ),
        (json!({ "conntrack": { "min": -1 } }), "conntrack.min"),
        (
            json!({ "conntrack": { "udpTimeout": "-1s" } }),
            "conntrack.udpTimeout",
        ),
    ] {
        let complaints = of(configuration.clone());
        let prefix = format!("{field}: ");
        let is_told = complaints
            .iter()
            .any(|complaint| complaint.starts_with(&prefix));
        assert!(is_told, "{configuration}: {complaints:?}");
    }
}

#[test]
fn what_it_takes_is_taken() {
    for configuration in [
        json!({}),
        json!({ "bindAddress": "::", "healthzBindAddress": "[::]:1", "metricsBindAddress": "::1" }),
        json!({ "clusterCIDR": "10.0.0.0/8,fd00::/8", "mode": "ipvs" }),
        json!({ "nodePortAddresses": ["primary"] }),
        json!({ "nodePortAddresses": ["10.0.0.0/8", "fd00::/8"], "oomScoreAdj": -1000 }),
        json!({ "detectLocalMode": "BridgeInterface", "detectLocal": { "bridgeInterface": "cni0" } }),
    ] {
        assert_eq!(of(configuration.clone()), [""; 0], "{configuration}");
    }
}

#[test]
fn a_field_without_effect_may_say_anything() {
    for configuration in [
        json!({ "configSyncPeriod": "-1s" }),
        json!({ "clientConnection": { "burst": -1 } }),
        json!({ "iptables": { "syncPeriod": "-1s", "minSyncPeriod": "30s", "masqueradeBit": 32 } }),
        json!({ "nftables": { "minSyncPeriod": "31s" } }),
        json!({ "ipvs": { "minSyncPeriod": "-1s" } }),
    ] {
        assert_eq!(of(configuration.clone()), [""; 0], "{configuration}");
    }
}
