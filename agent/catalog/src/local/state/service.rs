//! A service that is registered.

use std::{collections::BTreeMap, hash::Hasher as _, net::IpAddr};

use fnv::FnvHasher;
use serde::{Deserialize, Serialize};

use crate::local::definition::{
    proxy::Proxy,
    service::{ServiceDefinition, TaggedAddress, Weights},
};

/// The kind of service that a proxy is.
pub(crate) const PROXY: &str = "connect-proxy";

/// A service as clients are shown it: its content, without its status and its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Its id, one among all.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its kind; empty: nothing but a service.
    pub kind: String,
    /// In this order.
    pub tags: Vec<String>,
    /// Texts by key.
    pub meta: BTreeMap<String, String>,
    /// Its address; empty: the node's address.
    pub address: String,
    /// Other addresses, by their use.
    pub tagged_addresses: BTreeMap<String, TaggedAddress>,
    /// Its port, as it was written.
    pub port: i64,
    /// Its shares.
    pub weights: Weights,
    /// Kept for clients that read it.
    pub enable_tag_override: bool,
    /// True if it speaks Connect itself.
    pub is_native: bool,
    /// Settings of the proxy, if it is one.
    pub proxy: Option<Proxy>,
}

/// Origin of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// The API: until it is deregistered.
    Api,
    /// A file of definitions: until it is there no more.
    File,
}

/// A service that is registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// The service.
    pub service: Service,
    /// Its origin.
    pub(crate) origin: Origin,
    /// True if it came as the sidecar of another, with which it goes.
    pub(crate) is_sidecar: bool,
    /// Of the service's content.
    #[serde(skip)]
    hash: u64,
}

impl Service {
    /// Returns the content of `definition`, with its defaults.
    pub(crate) fn of(definition: &ServiceDefinition) -> Self {
        let id = definition.own_id().to_owned();
        let ServiceDefinition {
            id: _,
            name,
            kind,
            tags,
            meta,
            address,
            tagged_addresses,
            port,
            weights,
            enable_tag_override,
            checks: _,
            is_native,
            proxy,
            sidecar: _,
        } = definition;
        let mut tagged = tagged_addresses.clone();
        if let Ok(literal) = address.parse::<IpAddr>() {
            let tags = if literal.is_ipv4() {
                ["lan_ipv4", "wan_ipv4"]
            } else {
                ["lan_ipv6", "wan_ipv6"]
            };
            for tag in tags {
                tagged.entry(tag.to_owned()).or_insert(TaggedAddress {
                    address: address.clone(),
                    port: *port,
                });
            }
        }
        Self {
            id,
            name: name.clone(),
            kind: kind.clone(),
            tags: tags.clone(),
            meta: meta.clone(),
            address: address.clone(),
            tagged_addresses: tagged,
            port: *port,
            weights: weights.unwrap_or(Weights::ONE),
            enable_tag_override: *enable_tag_override,
            is_native: *is_native,
            proxy: proxy.clone(),
        }
    }

    /// The names under which frontends look for it: its own, and that of the service whose proxy it is.
    pub(crate) fn found_as(&self) -> impl Iterator<Item = &str> {
        let proxy = self.proxy.iter();
        let destinations = proxy.map(|proxy| proxy.destination_service_name.as_str());
        [self.name.as_str()].into_iter().chain(destinations)
    }
}

impl Registered {
    /// A service from there.
    pub(crate) fn new(service: Service, origin: Origin, is_sidecar: bool) -> Self {
        let mut registered = Self {
            service,
            origin,
            is_sidecar,
            hash: 0,
        };
        registered.take_hash();
        registered
    }

    /// Finds the hash of a service that was read from a file.
    pub(crate) fn take_hash(&mut self) {
        let mut hasher = FnvHasher::default();
        // What is written of it is its content, whole and in order.
        let content = serde_json::to_vec(&self.service).unwrap_or_default();
        hasher.write(&content);
        self.hash = hasher.finish();
    }

    /// By what its content is known again: 16 hexadecimal digits.
    pub fn content_hash(&self) -> String {
        format!("{:016x}", self.hash)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn hash(value: Value) -> String {
        let service = Service::of(&ServiceDefinition::of(value).unwrap());
        Registered::new(service, Origin::Api, false).content_hash()
    }

    #[test]
    fn the_hash_is_of_the_content_alone() {
        let web = || json!({ "Name": "web", "Port": 80, "Tags": ["a", "b"] });
        let first = hash(web());
        assert_eq!(first.len(), 16);
        assert_eq!(hash(web()), first);
        let service = Service::of(&ServiceDefinition::of(web()).unwrap());
        let from_file = Registered::new(service, Origin::File, true);
        assert_eq!(
            from_file.content_hash(),
            first,
            "where it came from does not count"
        );
        for changed in [
            json!({ "Name": "web", "Port": 80, "Tags": ["b", "a"] }),
            json!({ "Name": "web", "Port": 81, "Tags": ["a", "b"] }),
            json!({ "Name": "web", "Port": 80, "Tags": ["a", "b"], "Meta": { "k": "v" } }),
        ] {
            assert_ne!(hash(changed), first);
        }
    }

    #[test]
    fn the_hash_is_the_same_in_every_process() {
        // A client that waited with it before a restart goes on waiting after it.
        assert_eq!(hash(json!({ "Name": "web" })), "532f378d35ac9c03");
    }

    #[test]
    fn a_literal_address_fills_the_tagged_ones() {
        let tagged = |address: &str| {
            let value = json!({ "Name": "a", "Address": address, "Port": 1 });
            let service = Service::of(&ServiceDefinition::of(value).unwrap());
            service.tagged_addresses.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(tagged("10.0.0.1"), ["lan_ipv4", "wan_ipv4"]);
        assert_eq!(tagged("fd00::1"), ["lan_ipv6", "wan_ipv6"]);
        assert!(tagged("host.example").is_empty());
    }
}
