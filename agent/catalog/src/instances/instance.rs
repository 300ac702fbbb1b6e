//! An instance of a service, as it is registered.

use std::collections::BTreeMap;

/// Names and values that a service or a node is marked with.
pub(crate) type Meta = BTreeMap<Box<str>, Box<str>>;

/// The kind of a proxy that stands beside an instance and speaks for it.
pub(crate) const CONNECT_PROXY: &str = "connect-proxy";

/// One instance of a service. Nothing of it is checked: catalogs take ports and addresses that no client can
/// connect to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Instance {
    /// The name of the node that it runs on.
    pub(crate) node: Box<str>,
    /// The node's datacenter.
    pub(crate) datacenter: Box<str>,
    /// The node's own address.
    pub(crate) node_address: Box<str>,
    /// Further addresses of the node, by their tags: `lan`, `wan`.
    pub(crate) node_tagged_addresses: BTreeMap<Box<str>, Box<str>>,
    /// Marks of the node.
    pub(crate) node_meta: Meta,
    /// Its kind: empty for a service, [`CONNECT_PROXY`] and its like for what stands before one.
    pub(crate) kind: Box<str>,
    /// The name of its service.
    pub(crate) service: Box<str>,
    /// Its id, one of its kind on the node.
    pub(crate) id: Box<str>,
    /// Its tags.
    pub(crate) tags: Vec<Box<str>>,
    /// Its marks.
    pub(crate) meta: Meta,
    /// Its address; empty: the node's.
    pub(crate) address: Box<str>,
    /// Further addresses of it, by their tags: `wan`, `lan_ipv4`, `virtual`.
    pub(crate) tagged_addresses: BTreeMap<Box<str>, TaggedAddress>,
    /// Its port, whatever number stands there.
    pub(crate) port: i64,
    /// Its weights; `None`: 1 and 1.
    pub(crate) weights: Option<Weights>,
    /// The service that it speaks for, if it is a proxy.
    pub(crate) destination: Option<Box<str>>,
    /// True if it speaks Connect's protocol itself.
    pub(crate) is_connect_native: bool,
    /// Its checks and those of its node.
    pub(crate) checks: Vec<Check>,
}

/// A further address, with its port; 0: the instance's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TaggedAddress {
    /// As text.
    pub(crate) address: Box<str>,
    /// Whatever number stands there.
    pub(crate) port: i64,
}

/// The shares of new connections by health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weights {
    /// Of an instance that passes its checks.
    pub(crate) passing: i64,
    /// Of one that is warned of.
    pub(crate) warning: i64,
}

/// State of an instance or its node by one check. Its output is not kept: it changes with each run of a check,
/// and nothing follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// Id of the check.
    pub(crate) id: Box<str>,
    /// Its status.
    pub(crate) status: CheckStatus,
}

/// Status of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CheckStatus {
    /// All is well.
    Passing,
    /// Something is not.
    Warning,
    /// It does not work, is in maintenance, or is in an unknown state.
    Critical,
}

impl CheckStatus {
    /// The status of this name. A name that is unknown, or missing, is no reason to send anybody there.
    pub(crate) fn of_name(name: &str) -> Self {
        match name {
            "passing" => Self::Passing,
            "warning" => Self::Warning,
            _ => Self::Critical,
        }
    }
}
