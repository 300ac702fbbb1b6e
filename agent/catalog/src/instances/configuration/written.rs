//! The file as it is written.

use std::fmt;

use serde::{
    Deserialize,
    de::{Deserializer, SeqAccess, Visitor},
};
use toml::Spanned;

use crate::instances::instance::Meta;

/// All of it. An unknown key is an error: it may be a filter that was meant to keep instances out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) frontend: Vec<Spanned<Entry>>,
}

/// One `[[frontend]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) service: Spanned<String>,
    pub(super) name: Option<Spanned<String>>,
    pub(super) vip: Option<Spanned<Addresses>>,
    pub(super) vip_from_tag: Option<Spanned<String>>,
    pub(super) vip_from_range: Option<Spanned<String>>,
    pub(super) port: Option<Spanned<i64>>,
    pub(super) protocol: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) tags: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) service_meta: Meta,
    #[serde(default)]
    pub(super) node_meta: Meta,
    #[serde(default)]
    pub(super) only_passing: bool,
    #[serde(default)]
    pub(super) ignore_checks: Vec<Box<str>>,
    #[serde(default)]
    pub(super) connect: bool,
    #[serde(default)]
    pub(super) prefer_local: bool,
    pub(super) affinity: Option<Spanned<String>>,
    pub(super) selection: Option<Spanned<String>>,
    pub(super) masquerade: Option<bool>,
    pub(super) failover: Option<Spanned<FailoverList>>,
    pub(super) failover_nearest: Option<Spanned<i64>>,
    pub(super) via: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) sni: bool,
    pub(super) export: Option<Spanned<ExportAt>>,
}

/// `"resolver"`, or the names of datacenters.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "failover: neither `\"resolver\"` nor a list of datacenters"
)]
pub(super) enum FailoverList {
    Word(String),
    Names(Vec<String>),
}

/// `true`, or the address by which others reach it.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "export: neither `true` nor an address and a port as text"
)]
pub(super) enum ExportAt {
    AsIs(bool),
    At(String),
}

/// One address, or a list of them.
#[derive(Debug)]
pub(super) struct Addresses(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;

        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Addresses;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address as text, or a list of such")
            }

            fn visit_str<E>(self, text: &str) -> Result<Addresses, E> {
                Ok(Addresses(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Addresses, A::Error> {
                let mut found = Vec::new();
                while let Some(text) = list.next_element()? {
                    found.push(text);
                }
                Ok(Addresses(found))
            }
        }

        deserializer.deserialize_any(OneOrMore)
    }
}
