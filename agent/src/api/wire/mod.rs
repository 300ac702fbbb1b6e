//! The events' JSON form, before anything in it is checked but its shape. The messages of the gRPC
//! interface are brought into this form, too, so that there is one check for both.
//!
//! Text is borrowed from the line wherever it holds no escapes: a resync of a large cluster is a
//! line of many megabytes.

mod entries;
mod object;
mod text;

use serde::{Deserialize, de::IgnoredAny};

pub(super) use self::{entries::Entries, object::Object, text::Text};

/// One line. All events share this one struct, so that a line is decoded in one pass whatever
/// the order of its fields (serde's tagged enums would buffer it first); which fields belong to
/// which event is checked by the conversion.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line<'a> {
    #[serde(borrow)]
    pub(super) event: Text<'a>,
    pub(super) node_ips: Option<Vec<Text<'a>>>,
    pub(super) services: Option<Vec<Object<Service<'a>>>>,
    pub(super) frontend_ifs: Option<Vec<Text<'a>>>,
    pub(super) backend_ifs: Option<Vec<Text<'a>>>,
    pub(super) service: Option<Object<Service<'a>>>,
    pub(super) id: Option<Object<Id<'a>>>,
    pub(super) old: Option<IgnoredAny>,
    pub(super) new: Option<Vec<Text<'a>>>,
}

impl Line<'_> {
    /// The event of this name without any field.
    pub(super) fn of(event: &'static str) -> Self {
        Self {
            event: event.into(),
            node_ips: None,
            services: None,
            frontend_ifs: None,
            backend_ifs: None,
            service: None,
            id: None,
            old: None,
            new: None,
        }
    }
}

/// A service's identity.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Id<'a> {
    #[serde(borrow)]
    pub(super) namespace: Text<'a>,
    pub(super) name: Text<'a>,
}

/// A service.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Service<'a> {
    #[serde(borrow)]
    pub(super) id: Object<Id<'a>>,
    #[serde(default)]
    pub(super) cluster_ips: Vec<Text<'a>>,
    #[serde(default)]
    pub(super) external_ips: Vec<Text<'a>>,
    #[serde(default)]
    pub(super) load_balancer_ips: Vec<Text<'a>>,
    #[serde(default)]
    pub(super) load_balancer_source_ranges: Vec<Text<'a>>,
    pub(super) traffic_policy: Option<Text<'a>>,
    pub(super) internal_traffic_policy: Option<Text<'a>>,
    #[serde(default)]
    pub(super) session_affinity_timeout: u32,
    #[serde(default)]
    pub(super) ports: Entries<'a, Object<Port<'a>>>,
    #[serde(default)]
    pub(super) backends: Entries<'a, Vec<Object<Backend<'a>>>>,
}

/// A port of a service.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Port<'a> {
    #[serde(borrow)]
    pub(super) protocol: Text<'a>,
    pub(super) port: u16,
    #[serde(default)]
    pub(super) node_port: u16,
}

/// A backend of a port.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Backend<'a> {
    #[serde(borrow)]
    pub(super) ip: Text<'a>,
    pub(super) port: u16,
    pub(super) weight: Option<u32>,
    #[serde(default)]
    pub(super) local: bool,
    #[serde(default)]
    pub(super) host_network: bool,
    pub(super) state: Option<Text<'a>>,
    pub(super) node: Option<Text<'a>>,
    pub(super) zone: Option<Text<'a>>,
    pub(super) scopes: Option<Vec<Text<'a>>>,
}
