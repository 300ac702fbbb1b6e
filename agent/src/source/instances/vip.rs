//! A frontend's address, where its instances say it.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use shunt_model::unusable;
use thiserror::Error;

use crate::source::instances::{frontend::Frontend, instance::Instance};

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
    /// True if instances of the most wanted tier said it.
    pub(crate) is_of_first: bool,
}

/// The instances of a tier, which may say an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said<'a> {
    /// True if no tier is wanted more.
    pub(crate) is_first: bool,
    pub(crate) instances: &'a [Instance],
}

/// Why a frontend has no address, or not the one that its instances say.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum VipProblem {
    /// Nobody says it.
    #[error("no instance has the tagged address `{0}`: the frontend has no address yet")]
    Missing(Box<str>),
    /// What stands there is none.
    #[error("the tagged address `{tag}` of instance `{id}` on node `{node}`: {what}")]
    Bad {
        /// The tag.
        tag: Box<str>,
        /// Whose it is.
        node: Box<str>,
        /// Which of that node's instances.
        id: Box<str>,
        /// What is wrong with it.
        what: String,
    },
    /// They do not say the same.
    #[error(
        "conflict: instances disagree on the tagged address `{tag}`: {}; register them with one",
        listed(.found)
    )]
    Conflict {
        /// The tag.
        tag: Box<str>,
        /// What they say.
        found: BTreeSet<SocketAddr>,
    },
}

fn listed(found: &BTreeSet<SocketAddr>) -> String {
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    found.join(", ")
}

/// The address on which instances agree, if there is one in place of that `before`: the most wanted tier says it
/// of which any instance has the tag. As long as they disagree it stays: nobody is without an address because of one
/// registration. What the first tier said stays for other tiers, too, whose datacenters may have addresses of their own.
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

/// The address with this tag that those instances have which the frontend is for. One without the
/// tag says nothing; all others have to say the same.
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
