//! A ServiceCIDR (networking.k8s.io/v1).

use ipnet::IpNet;
use serde::Deserialize;

use super::{address::Range, metadata::Metadata, null};

/// A range from which cluster IPs are taken.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "RawServiceCidr")]
pub struct ServiceCidr {
    /// Its name.
    pub name: Box<str>,
    /// The ranges, one of each family at most.
    pub cidrs: Vec<IpNet>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawServiceCidr {
    #[serde(default)]
    pub(crate) metadata: Metadata,
    #[serde(default)]
    spec: RawSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    #[serde(deserialize_with = "null::or_default")]
    cidrs: Vec<Range>,
}

impl From<RawServiceCidr> for ServiceCidr {
    fn from(raw: RawServiceCidr) -> Self {
        let RawServiceCidr { metadata, spec } = raw;
        Self {
            name: metadata.name.unwrap_or_default(),
            cidrs: spec.cidrs.iter().filter_map(Range::net).collect(),
        }
    }
}
