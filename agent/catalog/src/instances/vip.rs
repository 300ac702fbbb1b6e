//! A frontend's address, where its instances have it.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use shunt_model::unusable;
use thiserror::Error;

use crate::instances::{frontend::Frontend, instance::Instance};

/// A frontend's addresses and its port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// None twice.
    pub(crate) ips: Vec<IpAddr>,
    /// Never 0.
    pub(crate) port: u16,
}

/// An address on which instances agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) address: Address,
    /// True if it comes from instances of the most wanted tier.
    pub(crate) is_of_first: bool,
}

/// The instances of a tier, which may have an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said<'a> {
    /// True if no tier is wanted more.
    pub(crate) is_first: bool,
    pub(crate) instances: &'a [Instance],
}

/// Reason that a frontend has no address, or not that of its instances.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum VipProblem {
    /// No instance has it.
    #[error("no instance has the tagged address `{0}`: the frontend has no address yet")]
    Missing(Box<str>),
    /// Its value is no address.
    #[error("the tagged address `{tag}` of instance `{id}` on node `{node}`: {what}")]
    Bad {
        /// The tag.
        tag: Box<str>,
        /// Its node.
        node: Box<str>,
        /// Id of that node's instance.
        id: Box<str>,
        /// The error in it.
        what: String,
    },
    /// They do not have the same one.
    #[error(
        "conflict: instances disagree on the tagged address `{tag}`: {}; register them with one",
        listed(.found)
    )]
    Conflict {
        /// The tag.
        tag: Box<str>,
        /// Their addresses.
        found: BTreeSet<SocketAddr>,
    },
}

fn listed(found: &BTreeSet<SocketAddr>) -> String {
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    found.join(", ")
}

/// Returns the address on which instances agree, if there is one in place of that `before`: that of the most wanted
/// tier of which any instance has the tag. As long as they disagree it stays: one registration takes no address
/// away. That of the first tier stays for other tiers, too, whose datacenters may have addresses of their own.
pub(super) fn agree(
    frontend: &Frontend,
    tag: &str,
    said: &[Said<'_>],
    before: Option<&Agreed>,
    problems: &mut Vec<String>,
) -> Option<Agreed> {
    for Said {
        is_first,
        instances,
    } in said
    {
        if !is_first && before.is_some_and(|before| before.is_of_first) {
            return None;
        }
        let wanted = instances.iter();
        let wanted = wanted.filter(|instance| frontend.is_for(instance));
        match tagged(frontend, tag, wanted) {
            Ok(address) => {
                return Some(Agreed {
                    address,
                    is_of_first: *is_first,
                });
            }
            Err(VipProblem::Missing(_)) => {}
            Err(problem) => {
                problems.push(problem.to_string());
                return None;
            }
        }
    }
    if before.is_none() {
        problems.push(VipProblem::Missing(tag.into()).to_string());
    }
    None
}

/// Returns the address with this tag of those instances that the frontend is for. One without the tag does not count;
/// all others have to have the same.
fn tagged<'a>(
    frontend: &Frontend,
    tag: &str,
    instances: impl Iterator<Item = &'a Instance>,
) -> Result<Address, VipProblem> {
    let mut found = BTreeSet::new();
    for instance in instances {
        if let Some(address) = instance.tagged_addresses.get(tag) {
            let port = frontend.port.map_or(address.port, i64::from);
            let said = usable(&address.address, port).map_err(|what| VipProblem::Bad {
                tag: tag.into(),
                node: instance.node.clone(),
                id: instance.id.clone(),
                what,
            })?;
            found.insert(said);
        }
    }
    match (found.len(), found.first()) {
        (1, Some(only)) => Ok(Address {
            ips: vec![only.ip()],
            port: only.port(),
        }),
        (_, None) => Err(VipProblem::Missing(tag.into())),
        (_, Some(_)) => Err(VipProblem::Conflict {
            tag: tag.into(),
            found,
        }),
    }
}

/// The address, if a frontend can have it.
fn usable(text: &str, port: i64) -> Result<SocketAddr, String> {
    let address = text.parse::<IpAddr>();
    let address = address.map_err(|_| format!("`{text}` is not an IP address"))?;
    let address = address.to_canonical();
    if let Some(kind) = unusable(address) {
        return Err(format!(
            "{address} is {kind} address, which no frontend can have"
        ));
    }
    match u16::try_from(port) {
        Ok(port) if port > 0 => Ok(SocketAddr::new(address, port)),
        _ => Err(format!(
            "its port {port} is outside 1-65535: give the frontend a port of its own"
        )),
    }
}
