//! Identities of workloads in the mesh, and hints for connections to them.

use linkerd2_proxy_api::destination::{
    ProtocolHint, TlsIdentity, WeightedAddr,
    protocol_hint::{H2, Opaque, OpaqueTransport, Protocol},
    tls_identity::{DnsLikeIdentity, Strategy, UriLikeIdentity},
};
use shunt_model::{Mesh, MeshIdentity, Workload};

use crate::linkerd::settings::{LinkerdSettings, MeshSettings};

/// Adds the identity of the workload's proxy and the hint for its connections, as linkerd's server does
/// (controller/api/destination/endpoint_translator.go). A workload without a proxy has neither, and a port that
/// does not pass through the proxy.
pub(super) fn add_hints(
    found: WeightedAddr,
    workload: &Workload,
    port: u16,
    settings: &LinkerdSettings,
) -> WeightedAddr {
    let (Some(of), Some(mesh)) = (&settings.mesh, &workload.mesh) else {
        return found;
    };
    if mesh.skipped_ports.iter().any(|range| range.contains(port)) {
        return found;
    }
    let is_opaque = settings.is_opaque_at(Some(workload), port);
    WeightedAddr {
        tls_identity: identity(mesh, &workload.id.namespace, of),
        protocol_hint: Some(hint(mesh, is_opaque)),
        ..found
    }
}

/// Connections to opaque ports go to the proxy's own port, with the workload's port in a header.
fn hint(mesh: &Mesh, is_opaque: bool) -> ProtocolHint {
    if is_opaque {
        ProtocolHint {
            protocol: Some(Protocol::Opaque(Opaque {})),
            opaque_transport: Some(OpaqueTransport {
                inbound_port: mesh.inbound_port.get().into(),
            }),
        }
    } else {
        ProtocolHint {
            protocol: Some(Protocol::H2(H2 {})),
            opaque_transport: None,
        }
    }
}

/// A pod of another control plane has no identity that clients of this one could verify.
fn identity(mesh: &Mesh, namespace: &str, of: &MeshSettings) -> Option<TlsIdentity> {
    let (strategy, server_name) = match &mesh.identity {
        MeshIdentity::ServiceAccount {
            name,
            control_plane,
        } => {
            if *control_plane != of.control_plane {
                return None;
            }
            let name = format!(
                "{name}.{namespace}.serviceaccount.identity.{control_plane}.{}",
                of.trust_domain
            );
            let strategy = Strategy::DnsLikeIdentity(DnsLikeIdentity { name: name.clone() });
            (strategy, name)
        }
        MeshIdentity::Uri { uri, server_name } => {
            let uri = uri.to_string();
            let strategy = Strategy::UriLikeIdentity(UriLikeIdentity { uri });
            (strategy, server_name.to_string())
        }
    };
    Some(TlsIdentity {
        strategy: Some(strategy),
        server_name: Some(DnsLikeIdentity { name: server_name }),
    })
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, num::NonZeroU16, sync::Arc};

    use shunt_model::{Phase, PortRange, WorkloadId, WorkloadKind};

    use super::*;
    use crate::linkerd::{metadata::of_workload, settings::OpaquePorts};

    fn settings(mesh: Option<(&str, &str)>) -> LinkerdSettings {
        LinkerdSettings {
            opaque_ports: OpaquePorts([range(25)].into()),
            mesh: mesh.map(|(trust_domain, control_plane)| MeshSettings {
                trust_domain: trust_domain.into(),
                control_plane: control_plane.into(),
            }),
            ..LinkerdSettings::of_domain("cluster.local")
        }
    }

    const fn range(port: u16) -> PortRange {
        PortRange {
            first: port,
            last: port,
        }
    }

    fn workload(identity: MeshIdentity) -> Workload {
        Workload {
            id: Arc::new(WorkloadId {
                kind: WorkloadKind::Pod,
                namespace: "shop".into(),
                name: "web-1".into(),
            }),
            ips: Box::default(),
            ports: Box::default(),
            host_ports: Box::default(),
            node: None,
            phase: Phase::Running,
            ready: None,
            owner: None,
            opaque_ports: None,
            policy_opaque_ports: Box::default(),
            mesh: Some(Box::new(Mesh {
                identity,
                inbound_port: NonZeroU16::new(4143).unwrap(),
                skipped_ports: [range(9)].into(),
            })),
        }
    }

    fn account(control_plane: &str) -> MeshIdentity {
        MeshIdentity::ServiceAccount {
            name: "web".into(),
            control_plane: control_plane.into(),
        }
    }

    /// The identity, the name in TLS and the hint at a port, as text.
    fn shown(workload: &Workload, port: u16, settings: &LinkerdSettings) -> String {
        let address = SocketAddr::from(([10, 1, 1, 3], port));
        let found = of_workload(workload, address, settings);
        let identity = found.tls_identity.map(|identity| {
            let strategy = match identity.strategy.unwrap() {
                Strategy::DnsLikeIdentity(DnsLikeIdentity { name }) => name,
                Strategy::UriLikeIdentity(UriLikeIdentity { uri }) => uri,
            };
            format!("{strategy} {}", identity.server_name.unwrap().name)
        });
        let hint = found.protocol_hint.map(|hint| {
            let port = hint.opaque_transport.map(|to| to.inbound_port);
            match hint.protocol.unwrap() {
                Protocol::Opaque(_) => format!("opaque {}", port.unwrap()),
                Protocol::H2(_) => format!("h2{}", port.map_or("", |_| " opaque")),
            }
        });
        format!(
            "{}, {}",
            identity.as_deref().unwrap_or("none"),
            hint.as_deref().unwrap_or("none")
        )
    }

    #[test]
    fn a_meshed_workload_has_identity_and_hint_if_the_mesh_is_given() {
        const ACCOUNT: &str = "web.shop.serviceaccount.identity.linkerd.example.org";
        let given = settings(Some(("example.org", "linkerd")));
        let vm = MeshIdentity::Uri {
            uri: "spiffe://example.org/vm".into(),
            server_name: "vm.example.org".into(),
        };
        let machine = "spiffe://example.org/vm vm.example.org";
        for (identity, port, settings, expected) in [
            (
                account("linkerd"),
                80,
                &given,
                format!("{ACCOUNT} {ACCOUNT}, h2"),
            ),
            (
                account("linkerd"),
                25,
                &given,
                format!("{ACCOUNT} {ACCOUNT}, opaque 4143"),
            ),
            (account("linkerd"), 9, &given, "none, none".into()),
            (account("other"), 80, &given, "none, h2".into()),
            (vm.clone(), 80, &given, format!("{machine}, h2")),
            (vm.clone(), 25, &given, format!("{machine}, opaque 4143")),
            (account("linkerd"), 80, &settings(None), "none, none".into()),
            (vm, 25, &settings(None), "none, none".into()),
        ] {
            let found = shown(&workload(identity.clone()), port, settings);
            assert_eq!(found, expected, "{identity:?} {port}");
        }
    }

    #[test]
    fn a_workload_without_a_proxy_has_neither() {
        let given = settings(Some(("example.org", "linkerd")));
        let workload = Workload {
            mesh: None,
            ..workload(account("linkerd"))
        };
        for port in [25, 80] {
            assert_eq!(shown(&workload, port, &given), "none, none", "{port}");
        }
    }

    #[test]
    fn ports_that_a_policy_makes_opaque_count_besides_the_others() {
        let given = settings(Some(("example.org", "linkerd")));
        for (own, port, is_opaque) in [
            (None, 80, true),
            (None, 25, true),
            (None, 81, false),
            (Some(Box::default()), 80, true),
            (Some(Box::default()), 25, false),
        ] {
            let workload = Workload {
                opaque_ports: own.clone(),
                policy_opaque_ports: [range(80)].into(),
                ..workload(account("other"))
            };
            let expected = if is_opaque {
                "none, opaque 4143"
            } else {
                "none, h2"
            };
            assert_eq!(shown(&workload, port, &given), expected, "{own:?} {port}");
            assert_eq!(given.is_opaque_at(Some(&workload), port), is_opaque);
        }
    }

    #[test]
    fn the_workloads_own_opaque_ports_count_for_the_hint() {
        let given = settings(Some(("example.org", "linkerd")));
        let workload = Workload {
            opaque_ports: Some([range(80)].into()),
            ..workload(account("other"))
        };
        assert_eq!(shown(&workload, 80, &given), "none, opaque 4143");
        assert_eq!(shown(&workload, 25, &given), "none, h2");
    }
}
