//! The events' JSON form, before anything in it is checked but its shape. The messages of the gRPC
//! interface are brought into this form, too, so that there is one check for both.
//!
//! Text is borrowed from the line wherever it holds no escapes: a resync of a large cluster is a
//! line of many megabytes.

pub mod entries;
pub mod object;
pub mod text;

use serde::{Deserialize, de::IgnoredAny};

pub use self::{entries::Entries, object::Object, text::Text};

/// One line. All events share this one struct, so that a line is decoded in one pass whatever
/// the order of its fields (serde's tagged enums would buffer it first); which fields belong to
/// which event is checked by the conversion.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line<'a> {
    #[serde(borrow)]
    pub event: Text<'a>,
    pub node_ips: Option<Vec<Text<'a>>>,
    pub services: Option<Vec<Object<Service<'a>>>>,
    pub frontend_ifs: Option<Vec<Text<'a>>>,
    pub backend_ifs: Option<Vec<Text<'a>>>,
    pub service: Option<Object<Service<'a>>>,
    pub id: Option<Object<Id<'a>>>,
    pub old: Option<IgnoredAny>,
    pub new: Option<Vec<Text<'a>>>,
}

impl Line<'_> {
    /// The event of this name without any field.
    pub fn of(event: &'static str) -> Self {
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
pub struct Id<'a> {
    #[serde(borrow)]
    pub namespace: Text<'a>,
    pub name: Text<'a>,
}

/// A service.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service<'a> {
    #[serde(borrow)]
    pub id: Object<Id<'a>>,
    #[serde(default)]
    pub cluster_ips: Vec<Text<'a>>,
    #[serde(default)]
    pub external_ips: Vec<Text<'a>>,
    #[serde(default)]
    pub load_balancer_ips: Vec<Text<'a>>,
    #[serde(default)]
    pub load_balancer_source_ranges: Vec<Text<'a>>,
    pub traffic_policy: Option<Text<'a>>,
    pub internal_traffic_policy: Option<Text<'a>>,
    #[serde(default)]
    pub session_affinity_timeout: u32,
    #[serde(default)]
    pub ports: Entries<'a, Object<Port<'a>>>,
    #[serde(default)]
    pub backends: Entries<'a, Vec<Object<Backend<'a>>>>,
}

/// A port of a service.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port<'a> {
    #[serde(borrow)]
    pub protocol: Text<'a>,
    pub port: u16,
    #[serde(default)]
    pub node_port: u16,
}

/// A backend of a port.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backend<'a> {
    #[serde(borrow)]
    pub ip: Text<'a>,
    pub port: u16,
    pub weight: Option<u32>,
    #[serde(default)]
    pub local: bool,
    #[serde(default)]
    pub host_network: bool,
    pub state: Option<Text<'a>>,
    pub node: Option<Text<'a>>,
    pub zone: Option<Text<'a>>,
    pub scopes: Option<Vec<Text<'a>>>,
}
