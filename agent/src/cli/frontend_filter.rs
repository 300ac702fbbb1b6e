//! Filters for frontends.

use std::net::IpAddr;

use clap::{Args, ValueEnum};
use shunt_api::view::{Frontend, FrontendKey};
use shunt_model::FrontendKind;

/// Filters for the frontends that are shown; all must match.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FrontendFilter {
    /// Filter by namespace of the service
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Filter by name of the service
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Filter by address of the frontend, or of a backend
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,

    /// Filter by kind
    #[arg(long, value_enum, value_name = "KIND", ignore_case = true)]
    kind: Option<Kind>,

    /// Show only frontends that differ from the events, or have no backend that takes connections
    #[arg(long)]
    not_right: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    #[value(name = "ClusterIP")]
    ClusterIp,
    #[value(name = "NodePort")]
    NodePort,
    #[value(name = "ExternalIP")]
    ExternalIp,
    #[value(name = "LoadBalancerIP")]
    LoadBalancerIp,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::ClusterIp => FrontendKind::ClusterIp,
            Self::NodePort => FrontendKind::NodePort,
            Self::ExternalIp => FrontendKind::ExternalIp,
            Self::LoadBalancerIp => FrontendKind::LoadBalancerIp,
        }
        .name()
    }
}

impl FrontendFilter {
    /// Returns whether the frontend matches.
    pub(crate) fn takes(&self, frontend: &Frontend) -> bool {
        let Self {
            namespace,
            name,
            address,
            kind,
            not_right,
        } = self;
        let service = frontend.service.as_deref().unwrap_or_default();
        let (its_namespace, its_name) = service.split_once('/').unwrap_or_default();
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        let mut backends = frontend.backends.iter();
        is(namespace, its_namespace)
            && is(name, its_name)
            && address.is_none_or(|address| {
                frontend.key.address == address || backends.any(|backend| backend.ip == address)
            })
            && kind.is_none_or(|kind| frontend.kind.as_deref() == Some(kind.name()))
            && (!not_right || is_not_right(frontend))
    }

    /// Returns whether a frontend matches that is not there, of which only the key is known.
    pub(crate) fn takes_missing(&self, key: &FrontendKey) -> bool {
        let Self {
            namespace,
            name,
            address,
            kind,
            not_right: _,
        } = self;
        // The service and the kind of such a frontend are unknown: no filter for them matches.
        namespace.is_none()
            && name.is_none()
            && kind.is_none()
            && address.is_none_or(|address| key.address == address)
    }
}

/// Returns whether it differs from the events, or has no backend that takes connections.
fn is_not_right(frontend: &Frontend) -> bool {
    let mut backends = frontend.backends.iter();
    frontend.difference.is_some() || !backends.any(|backend| backend.weight > 0)
}

#[cfg(test)]
mod tests {
    use shunt_api::view::{Backend, Difference, ProtocolNumber};

    use super::*;

    fn frontend() -> Frontend {
        Frontend {
            key: FrontendKey {
                address: [10, 96, 0, 10].into(),
                port: 80,
                protocol: ProtocolNumber(6),
            },
            kind: Some("ClusterIP".to_owned()),
            service: Some("shop/web".to_owned()),
            service_port: None,
            policy: None,
            selection: None,
            forwarding: None,
            masquerade: None,
            affinity_timeout: 0,
            backends: vec![Backend {
                ip: [10, 1, 1, 3].into(),
                port: 8080,
                weight: 1,
                local: true,
                new_connections: 0,
            }],
            split: None,
            difference: None,
            counters: None,
            this_node_only: false,
        }
    }

    fn filter(set: impl FnOnce(&mut FrontendFilter)) -> FrontendFilter {
        let mut filter = FrontendFilter::default();
        set(&mut filter);
        filter
    }

    #[test]
    fn a_frontend_is_shown_if_it_is_all_that_is_asked_for() {
        let takes = |set: fn(&mut FrontendFilter)| filter(set).takes(&frontend());
        assert!(takes(|_| {}));
        assert!(takes(|f| f.namespace = Some("shop".to_owned())));
        assert!(!takes(|f| f.namespace = Some("sho".to_owned())));
        assert!(takes(|f| f.name = Some("web".to_owned())));
        assert!(!takes(|f| {
            f.namespace = Some("shop".to_owned());
            f.name = Some("shop".to_owned());
        }));
        assert!(takes(|f| f.address = Some([10, 96, 0, 10].into())));
        assert!(
            takes(|f| f.address = Some([10, 1, 1, 3].into())),
            "its backend"
        );
        assert!(!takes(|f| f.address = Some([10, 1, 1, 4].into())));
        assert!(takes(|f| f.kind = Some(Kind::ClusterIp)));
        assert!(!takes(|f| f.kind = Some(Kind::NodePort)));
        assert!(!takes(|f| f.not_right = true));
    }

    #[test]
    fn what_is_not_right_differs_or_takes_no_connection() {
        let not_right = filter(|f| f.not_right = true);
        let mut changed = frontend();
        changed.difference = Some(Difference::Changed);
        assert!(not_right.takes(&changed));
        let mut drained = frontend();
        drained.backends[0].weight = 0;
        assert!(not_right.takes(&drained));
        let mut empty = frontend();
        empty.backends.clear();
        assert!(not_right.takes(&empty));
    }

    #[test]
    fn what_is_missing_is_named_by_its_address_alone() {
        let key = frontend().key;
        assert!(FrontendFilter::default().takes_missing(&key));
        assert!(filter(|f| f.address = Some(key.address)).takes_missing(&key));
        assert!(!filter(|f| f.address = Some([9, 9, 9, 9].into())).takes_missing(&key));
        assert!(!filter(|f| f.name = Some("web".to_owned())).takes_missing(&key));
    }
}
