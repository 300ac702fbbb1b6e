//! Filter for frontends.

use std::net::IpAddr;

use shunt_model::{FrontendKind, ServiceId};

use crate::{
    proto,
    view::{
        error::BadFilter,
        frontend::{Frontend, FrontendKey},
    },
};

/// A filter: a frontend matches if it meets every field that is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrontendFilter {
    /// Namespace of its service.
    pub namespace: Option<String>,
    /// Name of its service.
    pub name: Option<String>,
    /// Its address, or that of a backend.
    pub address: Option<IpAddr>,
    /// Its kind.
    pub kind: Option<FrontendKind>,
    /// It differs from the events, or has no backend that takes connections.
    pub not_right: bool,
}

impl FrontendFilter {
    /// Returns the only service whose frontends can match; `None` if there may be several.
    pub fn service(&self) -> Option<ServiceId> {
        let (namespace, name) = (self.namespace.as_ref()?, self.name.as_ref()?);
        Some(ServiceId::new(namespace, name))
    }

    /// Returns whether the frontend matches.
    pub fn takes(&self, frontend: &Frontend) -> bool {
        let service = frontend.service.as_deref();
        self.matches(
            frontend.key.address,
            service.and_then(|service| service.split_once('/')),
            frontend.kind.as_deref(),
            frontend
                .backends
                .iter()
                .map(|backend| (backend.ip, backend.weight)),
            || frontend.difference.is_some(),
        )
    }

    /// Returns whether a frontend matches that has this address, namespace and name of a service, kind, and backends
    /// with these weights. `differs` returns whether it differs from the events.
    pub fn matches(
        &self,
        at: IpAddr,
        service: Option<(&str, &str)>,
        its_kind: Option<&str>,
        backends: impl Iterator<Item = (IpAddr, u32)> + Clone,
        differs: impl FnOnce() -> bool,
    ) -> bool {
        let Self {
            namespace,
            name,
            address,
            kind,
            not_right,
        } = self;
        let (its_namespace, its_name) = service.unwrap_or_default();
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        let (mut ips, mut weights) = (backends.clone(), backends);
        let has = |address: IpAddr| at == address || ips.any(|(ip, _)| ip == address);
        is(namespace, its_namespace)
            && is(name, its_name)
            && address.is_none_or(has)
            && kind.is_none_or(|kind| its_kind == Some(kind.name()))
            && (!not_right || differs() || !weights.any(|(_, weight)| weight > 0))
    }

    /// Returns whether a frontend matches that is not there, of which only the key is known. Its service and its kind
    /// are unknown: no filter for them matches.
    pub fn takes_missing(&self, key: &FrontendKey) -> bool {
        let Self {
            namespace,
            name,
            address,
            kind,
            not_right: _,
        } = self;
        namespace.is_none()
            && name.is_none()
            && kind.is_none()
            && address.is_none_or(|address| key.address == address)
    }
}

impl From<FrontendFilter> for proto::FrontendFilter {
    fn from(filter: FrontendFilter) -> Self {
        let FrontendFilter {
            namespace,
            name,
            address,
            kind,
            not_right,
        } = filter;
        Self {
            namespace,
            name,
            address: address.map(|address| address.to_string()),
            kind: kind.map(|kind| kind.name().to_owned()),
            not_right,
        }
    }
}

impl TryFrom<proto::FrontendFilter> for FrontendFilter {
    type Error = BadFilter;

    fn try_from(filter: proto::FrontendFilter) -> Result<Self, BadFilter> {
        let proto::FrontendFilter {
            namespace,
            name,
            address,
            kind,
            not_right,
        } = filter;
        let address = address.map(|text| text.parse().map_err(|_| BadFilter::Address(text)));
        let kind = kind.map(|name| {
            let known = FrontendKind::ALL.into_iter();
            let mut known = known.filter(|kind| kind.name() == name);
            known.next().ok_or(BadFilter::FrontendKind(name))
        });
        Ok(Self {
            namespace,
            name,
            address: address.transpose()?,
            kind: kind.transpose()?,
            not_right,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::view::{Backend, Difference, ProtocolNumber};

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
            source_ranges: Vec::new(),
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
        assert!(takes(|f| f.kind = Some(FrontendKind::ClusterIp)));
        assert!(!takes(|f| f.kind = Some(FrontendKind::NodePort)));
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

    #[test]
    fn a_filter_is_sent_and_understood() {
        let filters = [
            FrontendFilter::default(),
            FrontendFilter {
                namespace: Some("shop".to_owned()),
                name: Some("web".to_owned()),
                address: Some([10, 1, 1, 3].into()),
                kind: Some(FrontendKind::NodePort),
                not_right: true,
            },
        ];
        for filter in filters {
            let sent = proto::FrontendFilter::from(filter.clone());
            assert_eq!(FrontendFilter::try_from(sent), Ok(filter));
        }
        let bad = |set: fn(&mut proto::FrontendFilter)| {
            let mut filter = proto::FrontendFilter::default();
            set(&mut filter);
            FrontendFilter::try_from(filter).unwrap_err()
        };
        let address = bad(|filter| filter.address = Some("web".to_owned()));
        assert_eq!(address, BadFilter::Address("web".to_owned()));
        let kind = bad(|filter| filter.kind = Some("Pod".to_owned()));
        assert_eq!(kind, BadFilter::FrontendKind("Pod".to_owned()));
    }

    #[test]
    fn one_service_is_meant_by_namespace_and_name() {
        let mut filter = FrontendFilter {
            namespace: Some("shop".to_owned()),
            ..FrontendFilter::default()
        };
        assert_eq!(filter.service(), None);
        filter.name = Some("web".to_owned());
        assert_eq!(filter.service(), Some(ServiceId::new("shop", "web")));
    }
}
