//! A frontend of a service, as the configuration has it.

use std::{net::IpAddr, sync::Arc};

use ipnet::IpNet;
use shunt_model::{Protocol, Selection, ServiceId};

use crate::source::instances::{instance::Meta, tag::TagRule};

/// The namespace of services that come from a catalog.
pub(crate) const NAMESPACE: &str = "consul";

/// A frontend, and which instances are behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frontend {
    /// What the renderer knows it by.
    pub(crate) id: Arc<ServiceId>,
    /// The service, in the catalog's words.
    pub(crate) service: Box<str>,
    /// Where its addresses come from.
    pub(crate) vip: Vip,
    /// Its port; `None`: that of the tagged address.
    pub(crate) port: Option<u16>,
    /// Its protocol: a catalog has none.
    pub(crate) protocol: Protocol,
    /// The tags that instances have, and have not.
    pub(crate) tags: Vec<TagRule>,
    /// What instances are marked with.
    pub(crate) service_meta: Meta,
    /// What their nodes are marked with.
    pub(crate) node_meta: Meta,
    /// Whether instances that are warned of drain.
    pub(crate) only_passing: bool,
    /// Checks that do not count, by their ids.
    pub(crate) ignored_checks: Vec<Box<str>>,
    /// Whether it leads to those that speak Connect's protocol for the service.
    pub(crate) connect: bool,
    /// Whether usable instances of this node have all new connections.
    pub(crate) prefer_local: bool,
    /// Session affinity in seconds since last use; 0 is off.
    pub(crate) affinity: u32,
    /// How it selects; `None`: as the agent's default is.
    pub(crate) selection: Option<Selection>,
    /// Where its instances are, in the order in which they are wanted.
    pub(crate) tiers: Vec<Datacenter>,
}

/// Where a frontend's addresses come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Vip {
    /// The configuration.
    Fixed(Vec<IpAddr>),
    /// Its instances' address with this tag, which is to be the same of all.
    Tagged(Box<str>),
    /// One of this range that nobody has claimed, which is claimed for all agents.
    Claimed(IpNet),
}

/// A place where instances are looked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Datacenter {
    /// The agent's own.
    Own,
}

/// What is asked for instances. Several frontends may have it in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Query {
    /// The service.
    pub(crate) service: Box<str>,
    /// Whether those are asked for that speak Connect's protocol for it.
    pub(crate) connect: bool,
    /// Where.
    pub(crate) datacenter: Datacenter,
}

impl Frontend {
    /// What has to be known for it, tier by tier.
    pub(crate) fn queries(&self) -> impl Iterator<Item = Query> + use<'_> {
        self.tiers.iter().map(|datacenter| Query {
            service: self.service.clone(),
            connect: self.connect,
            datacenter: datacenter.clone(),
        })
    }
}

/// The name by which the renderer knows a frontend of `service` that is called `name`. Names in a catalog
/// may have any letter; what would make a listing ambiguous is written in hexadecimal.
pub(super) fn id(service: &str, name: Option<&str>) -> ServiceId {
    let mut text = escaped(service);
    if let Some(name) = name {
        text.push(':');
        text.push_str(&escaped(name));
    }
    ServiceId::new(NAMESPACE, &text)
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '/' | '%') || letter.is_whitespace() || letter.is_control() {
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                escaped.push_str(&format!("%{byte:02X}"));
            }
        } else {
            escaped.push(letter);
        }
    }
    escaped
}
