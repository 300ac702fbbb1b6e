//! A frontend of a service, as the configuration has it.

use std::{net::IpAddr, sync::Arc};

use ipnet::IpNet;
use shunt_model::{Protocol, Selection, ServiceId};

use crate::instances::{
    instance::Meta,
    tag::TagRule,
    tier::{Datacenter, Export, Failover, Tier, Via},
};

/// The namespace of services that come from a catalog.
pub(crate) const NAMESPACE: &str = "consul";

/// A frontend, and the choice of the instances behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frontend {
    /// Id by which the renderer knows it.
    pub(crate) id: Arc<ServiceId>,
    /// The service, in the catalog's words.
    pub(crate) service: Box<str>,
    /// Source of its addresses.
    pub(crate) vip: Vip,
    /// Its port; `None`: that of the tagged address.
    pub(crate) port: Option<u16>,
    /// Its protocol: a catalog has none.
    pub(crate) protocol: Protocol,
    /// The tags that instances have, and have not.
    pub(crate) tags: Vec<TagRule>,
    /// Marks of its instances.
    pub(crate) service_meta: Meta,
    /// Marks of their nodes.
    pub(crate) node_meta: Meta,
    /// True if instances that are warned of drain.
    pub(crate) only_passing: bool,
    /// Checks that do not count, by their ids.
    pub(crate) ignored_checks: Vec<Box<str>>,
    /// True if it leads to those that speak Connect's protocol for the service.
    pub(crate) connect: bool,
    /// True if usable instances of this node have all new connections.
    pub(crate) prefer_local: bool,
    /// Session affinity in seconds since last use; 0 is off.
    pub(crate) affinity: u32,
    /// Selection of its backends; `None`: the agent's default.
    pub(crate) selection: Option<Selection>,
    /// True if clients' connections go on to this host's instances from its own address; `None`: the agent's default.
    pub(crate) masquerade: Option<bool>,
    /// Places to look for its instances after the own datacenter.
    pub(crate) failover: Failover,
    /// Path of connections to there.
    pub(crate) via: Via,
    /// True if the checks of gateways show whether there is an instance behind them: those cannot be asked for here.
    pub(crate) trusts_gateways: bool,
    /// Form in which it is offered to other datacenters, if it is.
    pub(crate) export: Option<Export>,
}

/// Source of a frontend's addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Vip {
    /// The configuration.
    Fixed(Vec<IpAddr>),
    /// Its instances' address with this tag, which is to be the same of all.
    Tagged(Box<str>),
    /// One of this range that is free, which is claimed for all agents.
    Claimed(IpNet),
}

impl Frontend {
    /// Returns its tiers, as far as the configuration defines them: that of the own datacenter, and those that
    /// it names.
    pub(crate) fn configured_tiers(&self) -> Vec<Tier> {
        self.tiers_with(&[])
    }

    /// Its tiers, where these are the nearest other datacenters. Each of them once.
    pub(crate) fn tiers_with(&self, near: &[Box<str>]) -> Vec<Tier> {
        let mut tiers = vec![Tier::of(&self.service, Datacenter::Own)];
        if let Failover::Datacenters { nearest, then } = &self.failover {
            for name in near.iter().take(*nearest).chain(then) {
                let tier = Tier::of(&self.service, Datacenter::Other(name.clone()));
                if !tiers.contains(&tier) {
                    tiers.push(tier);
                }
            }
        }
        tiers
    }

    /// Returns whether the configuration defines all its tiers.
    pub(crate) const fn has_fixed_tiers(&self) -> bool {
        matches!(self.failover, Failover::Datacenters { nearest: 0, .. })
    }

    /// Leaves the own datacenter out of those that come after it.
    pub(crate) fn settle_in(&mut self, own: &str) {
        if let Failover::Datacenters { then, .. } = &mut self.failover {
            then.retain(|name| **name != *own);
        }
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
