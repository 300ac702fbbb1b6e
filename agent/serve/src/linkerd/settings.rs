//! Settings of the API that no event has.

use std::{fmt, str::FromStr, sync::Arc};

use shunt_model::{Fault, PortRange, ServiceId, Workload};

/// The settings of the API.
#[derive(Debug, Clone)]
pub struct LinkerdSettings {
    /// Suffix of the names of services, behind `svc.`: `cluster.local`.
    pub cluster_domain: Arc<str>,
    /// The ports that are opaque where neither service nor workload lists its own.
    pub opaque_ports: OpaquePorts,
    /// The mesh whose identities clients verify; `None`: identities and hints are not sent.
    pub mesh: Option<MeshSettings>,
    /// True if services have endpoints of IPv6 for clients.
    pub ipv6: bool,
}

/// The mesh of linkerd's proxies. If a part of it is wrong, every connection to a meshed pod fails.
#[derive(Debug, Clone)]
pub struct MeshSettings {
    /// The suffix of identities, `cluster.local` for example.
    pub trust_domain: Arc<str>,
    /// The namespace of the control plane, `linkerd` for example.
    pub control_plane: Arc<str>,
}

impl LinkerdSettings {
    /// Settings of tests in a cluster of this domain: no ports are opaque.
    #[cfg(test)]
    pub(super) fn of_domain(domain: &str) -> Self {
        Self {
            cluster_domain: domain.into(),
            opaque_ports: OpaquePorts(Arc::default()),
            mesh: None,
            ipv6: true,
        }
    }

    /// The name of a service, as the cluster's DNS has it.
    pub(super) fn name_of(&self, service: &ServiceId) -> String {
        let ServiceId { namespace, name } = service;
        format!("{name}.{namespace}.svc.{}", self.cluster_domain)
    }

    /// Returns whether a port of a workload, or of an address without one, is opaque.
    pub(super) fn is_opaque_at(&self, workload: Option<&Workload>, port: u16) -> bool {
        let said = workload.and_then(|workload| workload.opaque_ports.as_deref());
        let mut more = workload
            .into_iter()
            .flat_map(|own| &own.policy_opaque_ports);
        self.is_opaque(said, port) || more.any(|range| range.contains(port))
    }

    /// Returns whether a port is opaque, by its own service's or workload's list of ports.
    pub(super) fn is_opaque(&self, said: Option<&[PortRange]>, port: u16) -> bool {
        let OpaquePorts(default) = &self.opaque_ports;
        let ports = said.unwrap_or(default);
        ports.iter().any(|range| range.contains(port))
    }
}

/// Ports whose protocol proxies are not to look into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpaquePorts(pub Arc<[PortRange]>);

impl OpaquePorts {
    /// Ports that linkerd is installed with: protocols in which the server speaks first.
    pub const DEFAULT: &str = "25,587,3306,4444,5432,6379,9300,11211";
}

/// Ports and ranges of them, separated by commas; none in an empty text.
impl FromStr for OpaquePorts {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let items = text.split(',').map(str::trim);
        let items = items.filter(|item| !item.is_empty());
        items.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for OpaquePorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_replaces_the_default() {
        let settings = LinkerdSettings {
            opaque_ports: OpaquePorts::DEFAULT.parse().unwrap(),
            ..LinkerdSettings::of_domain("cluster.local")
        };
        assert_eq!(settings.opaque_ports.to_string(), OpaquePorts::DEFAULT);
        let range = PortRange {
            first: 8000,
            last: 8010,
        };
        for (said, port, is_opaque) in [
            (None, 3306, true),
            (None, 8000, false),
            (Some(&[range][..]), 3306, false),
            (Some(&[range][..]), 8010, true),
            (Some(&[][..]), 25, false),
        ] {
            assert_eq!(settings.is_opaque(said, port), is_opaque, "{said:?} {port}");
        }
        assert_eq!("".parse(), Ok(OpaquePorts(Arc::default())));
        "http".parse::<OpaquePorts>().unwrap_err();
    }
}
