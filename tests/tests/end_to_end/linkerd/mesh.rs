//! Identities of workloads in linkerd's mesh, and hints for connections to them.

use linkerd2_proxy_api::destination::{
    ProtocolHint, TlsIdentity, WeightedAddr, protocol_hint::Protocol, tls_identity::Strategy,
};
use serde_json::{Value, json};

use super::{
    client::{Client, block_on},
    services::{Served, pod, service, web, with},
};
use crate::world::resync_with;

const FLAGS: [&str; 4] = [
    "--linkerd-trust-domain",
    "example.org",
    "--linkerd-control-plane-namespace",
    "linkerd",
];

const ACCOUNT: &str = "web.default.serviceaccount.identity.linkerd.example.org";

/// A service of a meshed pod and of one without a proxy, and a meshed machine.
fn events() -> Vec<String> {
    let proxy = json!({
        "service_account": "web", "control_plane": "linkerd", "inbound_port": 4143,
        "skipped_ports": ["9000"],
    });
    let machine: Value = json!({
        "id": { "kind": "ExternalWorkload", "namespace": "default", "name": "vm" },
        "ips": ["172.16.0.1"],
        "ports": [{ "port": 80, "protocol": "TCP" }],
        "mesh": {
            "uri": "spiffe://example.org/vm", "server_name": "vm.example.org",
            "inbound_port": 4143,
        },
    });
    let workloads = json!({
        "event": "UpdateWorkloads",
        "workloads": [
            with(pod("web-1", "10.1.1.3"), json!({ "mesh": proxy })),
            pod("web-2", "10.1.2.3"),
            machine,
        ],
    });
    let services = [service("web", &["10.96.0.10"], 80, &web())];
    vec![resync_with(&services), workloads.to_string()]
}

/// The identity, the name in TLS and the hint of an address, as text.
fn shown(found: &WeightedAddr) -> String {
    let identity = found.tls_identity.as_ref().map(|identity| {
        let TlsIdentity {
            strategy,
            server_name,
        } = identity;
        let strategy = match strategy.as_ref().unwrap() {
            Strategy::DnsLikeIdentity(identity) => &identity.name,
            Strategy::UriLikeIdentity(identity) => &identity.uri,
        };
        format!("{strategy} {}", server_name.as_ref().unwrap().name)
    });
    let hint = found.protocol_hint.as_ref().map(|hint| {
        let ProtocolHint {
            protocol,
            opaque_transport,
        } = hint;
        let protocol = match protocol.as_ref().unwrap() {
            Protocol::H2(_) => "h2",
            Protocol::Opaque(_) => "opaque",
        };
        let port = opaque_transport.as_ref().map(|to| to.inbound_port);
        port.map_or_else(|| protocol.to_owned(), |port| format!("{protocol} {port}"))
    });
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
    format!("{}, {}", or_none(identity), or_none(hint))
}

/// The answers for a path: each address of `Get`, and the endpoint of `GetProfile`.
async fn answers(client: &mut Client, path: &str) -> Vec<String> {
    let mut updates = client.get(path, "").await.unwrap();
    let (_, endpoints) = updates.added().await;
    let mut profiles = client.profile(path).await.unwrap();
    let endpoint = profiles.profile().await.endpoint;
    endpoints.iter().chain(&endpoint).map(shown).collect()
}

#[test]
fn the_flags_of_the_mesh_have_identities_and_hints_sent() {
    let Some((_world, place)) = Served::world_with(&FLAGS, &events()) else {
        return;
    };
    block_on(async {
        let mut client = Client::at(&place).await;
        let own = format!("{ACCOUNT} {ACCOUNT}, h2");
        let opaque = format!("{ACCOUNT} {ACCOUNT}, opaque 4143");
        let machine = "spiffe://example.org/vm vm.example.org, h2";
        for (path, expected) in [
            ("10.96.0.10:80", vec![own.as_str(), "none, none"]),
            ("10.1.1.3:8080", vec![own.as_str(); 2]),
            ("10.1.1.3:3306", vec![opaque.as_str(); 2]),
            ("10.1.1.3:9000", vec!["none, none"; 2]),
            ("172.16.0.1:80", vec![machine; 2]),
        ] {
            assert_eq!(answers(&mut client, path).await, expected, "{path}");
        }
    });
}

#[test]
fn without_the_flags_of_the_mesh_none_is_sent() {
    let Some((_world, place)) = Served::world(&events()) else {
        return;
    };
    block_on(async {
        let mut client = Client::at(&place).await;
        for path in ["10.96.0.10:80", "10.1.1.3:3306", "172.16.0.1:80"] {
            for found in answers(&mut client, path).await {
                assert_eq!(found, "none, none", "{path}");
            }
        }
    });
}
