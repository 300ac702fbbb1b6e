//! The gateways of a datacenter, in the form in which Consul keeps and shows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::instances::instance::{self, CheckStatus, Instance};

/// Mark of gateways that carry the federation itself, in Consul as here.
const FEDERATES: (&str, &str) = ("consul-wan-federation", "1");

/// The gateways of a datacenter, and as which change they came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Record {
    /// The datacenter.
    pub datacenter: String,
    /// All of its gateways, critical ones too.
    pub mesh_gateways: Vec<Gateway>,
    /// Time of that write in the primary (RFC 3339).
    #[serde(default)]
    pub(crate) updated_at: String,
    /// Index of the change in the primary that a secondary has it from.
    #[serde(default)]
    pub(crate) primary_modify_index: u64,
    /// The change that brought it here.
    #[serde(default)]
    pub(crate) create_index: u64,
    /// The change that last touched it here.
    #[serde(default)]
    pub modify_index: u64,
}

/// A gateway, its node and its checks. Unknown fields are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Gateway {
    pub(crate) node: Node,
    pub(crate) service: Service,
    pub(crate) checks: Vec<Check>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Node {
    pub(crate) node: String,
    pub(crate) address: String,
    pub(crate) datacenter: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Service {
    pub(crate) kind: String,
    #[serde(rename = "ID")]
    pub(crate) id: String,
    pub(crate) service: String,
    pub(crate) address: String,
    pub(crate) port: i64,
    #[serde(default)]
    pub(crate) meta: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) tagged_addresses: BTreeMap<String, TaggedAddress>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct TaggedAddress {
    pub(crate) address: String,
    pub(crate) port: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Check {
    pub(crate) node: String,
    #[serde(rename = "CheckID")]
    pub(crate) id: String,
    pub(crate) status: String,
    #[serde(rename = "ServiceID")]
    pub(crate) service_id: String,
}

impl Gateway {
    /// Returns whether it may have new connections: a warning keeps no client away, as in Consul.
    pub(crate) fn is_usable(&self) -> bool {
        let mut checks = self.checks.iter();
        checks.all(|check| CheckStatus::of_name(&check.status) != CheckStatus::Critical)
    }

    /// Returns whether it carries the federation itself.
    pub(super) fn federates(&self) -> bool {
        let (key, value) = FEDERATES;
        self.service.meta.get(key).is_some_and(|it| it == value)
    }

    /// Returns its address for its own datacenter.
    pub(super) fn lan(&self) -> String {
        let Service { address, port, .. } = &self.service;
        let address = if address.is_empty() {
            &self.node.address
        } else {
            address
        };
        at(address, *port)
    }

    /// Returns its address for the others.
    pub(super) fn wan(&self) -> String {
        match self.service.tagged_addresses.get("wan") {
            Some(TaggedAddress { address, port: 0 }) => at(address, self.service.port),
            Some(TaggedAddress { address, port }) => at(address, *port),
            None => self.lan(),
        }
    }

    /// As an instance of `datacenter`.
    pub(super) fn instance(&self, datacenter: &str) -> Instance {
        let Self {
            node,
            service,
            checks,
        } = self;
        let boxed = |(key, value): (&String, &String)| (key.as_str().into(), value.as_str().into());
        let tagged = service.tagged_addresses.iter().map(|(tag, tagged)| {
            let tagged = instance::TaggedAddress {
                address: tagged.address.as_str().into(),
                port: tagged.port,
            };
            (tag.as_str().into(), tagged)
        });
        let checks = checks.iter().map(|check| instance::Check {
            id: check.id.as_str().into(),
            status: CheckStatus::of_name(&check.status),
        });
        Instance {
            node: node.node.as_str().into(),
            datacenter: datacenter.into(),
            node_address: node.address.as_str().into(),
            kind: service.kind.as_str().into(),
            service: service.service.as_str().into(),
            id: service.id.as_str().into(),
            meta: service.meta.iter().map(boxed).collect(),
            address: service.address.as_str().into(),
            tagged_addresses: tagged.collect(),
            port: service.port,
            checks: checks.collect(),
            ..Instance::default()
        }
    }
}

/// An address and a port, as text that can be connected to.
fn at(address: &str, port: i64) -> String {
    if address.contains(':') {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    }
}
