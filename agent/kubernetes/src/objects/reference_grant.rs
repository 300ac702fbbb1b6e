//! A ReferenceGrant of the Gateway API (gateway.networking.k8s.io/v1, or v1beta1).

use serde::Deserialize;
use shunt_model::ServiceId;

use super::{metadata::Metadata, null};

/// A permission to refer to objects of its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "RawGrant")]
pub(crate) struct ReferenceGrant {
    /// Its own identity; its namespace is that of the objects.
    pub(crate) id: ServiceId,
    /// Objects that may refer.
    pub(crate) from: Vec<GrantFrom>,
    /// To what.
    pub(crate) to: Vec<GrantTo>,
}

/// Objects that may refer: all of a kind in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct GrantFrom {
    /// The group.
    #[serde(default)]
    pub(crate) group: Box<str>,
    /// The kind.
    #[serde(default)]
    pub(crate) kind: Box<str>,
    /// The namespace.
    #[serde(default)]
    pub(crate) namespace: Box<str>,
}

/// Objects that may be referred to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct GrantTo {
    /// The group.
    #[serde(default)]
    pub(crate) group: Box<str>,
    /// The kind.
    #[serde(default)]
    pub(crate) kind: Box<str>,
    /// The name; `None`: all of the kind.
    pub(crate) name: Option<Box<str>>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawGrant {
    #[serde(default)]
    pub(crate) metadata: Metadata,
    #[serde(default)]
    spec: RawSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    #[serde(deserialize_with = "null::or_default")]
    from: Vec<GrantFrom>,
    #[serde(deserialize_with = "null::or_default")]
    to: Vec<GrantTo>,
}

impl From<RawGrant> for ReferenceGrant {
    fn from(raw: RawGrant) -> Self {
        let RawGrant { metadata, spec } = raw;
        let RawSpec { from, to } = spec;
        Self {
            id: metadata.id(),
            from,
            to,
        }
    }
}
