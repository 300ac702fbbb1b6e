//! A service as it is defined.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::local::definition::{
    check::CheckDefinition,
    fields::{Fields, Malformed},
    proxy::Proxy,
};

/// A service as it is defined, and with it the one of its sidecar.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceDefinition {
    /// Its id; empty: its name.
    pub(crate) id: String,
    /// Its name, which several may have.
    pub(crate) name: String,
    /// Its kind; empty: nothing but a service.
    pub(crate) kind: String,
    /// In this order.
    pub(crate) tags: Vec<String>,
    /// Texts by key.
    pub(crate) meta: BTreeMap<String, String>,
    /// Its address; empty: the node's address.
    pub(crate) address: String,
    /// Other addresses, by their use.
    pub(crate) tagged_addresses: BTreeMap<String, TaggedAddress>,
    /// Its port, as it was written.
    pub(crate) port: i64,
    /// Its shares; `None`: not given.
    pub(crate) weights: Option<Weights>,
    /// True if others may change its tags; kept for clients that read it.
    pub(crate) enable_tag_override: bool,
    /// Its checks.
    pub(crate) checks: Vec<CheckDefinition>,
    /// True if it speaks Connect itself.
    pub(crate) is_native: bool,
    /// Settings of the proxy, if it is one.
    pub(crate) proxy: Option<Proxy>,
    /// Its sidecar, as far as it was given.
    pub(crate) sidecar: Option<Box<Self>>,
}

/// Another address of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaggedAddress {
    /// The address.
    pub address: String,
    /// The port there.
    pub port: i64,
}

/// A service's share of new connections among those of its name, by its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weights {
    /// While all is well.
    pub passing: i64,
    /// While a check warns.
    pub warning: i64,
}

impl Weights {
    /// Weights of a service that has none of its own.
    pub(crate) const ONE: Self = Self {
        passing: 1,
        warning: 1,
    };
}

impl ServiceDefinition {
    /// Reads it from JSON.
    ///
    /// # Errors
    ///
    /// A field is not known, or not what it has to be.
    pub fn of(value: Value) -> Result<Self, Malformed> {
        Self::read(Fields::of(value, "")?)
    }

    /// Reads it.
    pub(crate) fn read(mut fields: Fields) -> Result<Self, Malformed> {
        // Nothing is protected by tokens here.
        fields.text("Token")?;
        for name in ["Namespace", "Partition"] {
            let part = fields.text(name)?;
            if !["", "default"].contains(&part.as_str()) {
                let text = format!("{name} must be default or nothing: there is only one here");
                return Err(Malformed::new(text));
            }
        }
        let mut checks = Vec::new();
        if let Some(check) = fields.object("Check")? {
            let check = CheckDefinition::read(check)?;
            // Consul's own command writes an empty one.
            if check != CheckDefinition::default() {
                checks.push(check);
            }
        }
        for check in fields.objects("Checks")? {
            checks.push(CheckDefinition::read(check)?);
        }
        let (is_native, sidecar) = connect(&mut fields)?;
        let definition = Self {
            id: fields.text("ID")?,
            name: fields.text("Name")?,
            kind: fields.text("Kind")?,
            tags: fields.texts("Tags")?,
            meta: fields.pairs("Meta")?,
            address: fields.text("Address")?,
            tagged_addresses: tagged_addresses(&mut fields)?,
            port: fields.number("Port")?.unwrap_or_default(),
            weights: weights(&mut fields)?,
            enable_tag_override: fields.switch("EnableTagOverride")?,
            checks,
            is_native,
            proxy: fields.object("Proxy")?.map(Proxy::read).transpose()?,
            sidecar,
        };
        fields.finish()?;
        Ok(definition)
    }

    /// Its id, or else its name.
    pub(crate) fn own_id(&self) -> &str {
        if self.id.is_empty() {
            &self.name
        } else {
            &self.id
        }
    }
}

/// Returns whether it speaks Connect itself, and its sidecar.
fn connect(fields: &mut Fields) -> Result<(bool, Option<Box<ServiceDefinition>>), Malformed> {
    let Some(mut connect) = fields.object("Connect")? else {
        return Ok((false, None));
    };
    let is_native = connect.switch("Native")?;
    let sidecar = connect.object("SidecarService")?;
    let sidecar = sidecar.map(ServiceDefinition::read).transpose()?;
    connect.finish()?;
    Ok((is_native, sidecar.map(Box::new)))
}

fn weights(fields: &mut Fields) -> Result<Option<Weights>, Malformed> {
    let Some(mut weights) = fields.object("Weights")? else {
        return Ok(None);
    };
    // A weight that is missing among those that are given is 0.
    let given = Weights {
        passing: weights.number("Passing")?.unwrap_or_default(),
        warning: weights.number("Warning")?.unwrap_or_default(),
    };
    weights.finish()?;
    Ok(Some(given))
}

fn tagged_addresses(fields: &mut Fields) -> Result<BTreeMap<String, TaggedAddress>, Malformed> {
    let mut addresses = BTreeMap::new();
    for (tag, value) in fields.opaque("TaggedAddresses")? {
        let mut fields = Fields::of(value, &format!("TaggedAddresses.{tag}"))?;
        let address = TaggedAddress {
            address: fields.text("Address")?,
            port: fields.number("Port")?.unwrap_or_default(),
        };
        fields.finish()?;
        addresses.insert(tag, address);
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_reads_alike_in_both_spellings() {
        let api = json!({
            "Name": "web", "ID": "web1", "Port": 80, "Check": { "TTL": "1s" },
            "TaggedAddresses": { "wan": { "Address": "192.0.2.1", "Port": 81 } },
            "EnableTagOverride": true, "Weights": { "Passing": 5 },
            "Connect": { "SidecarService": { "Port": 21007 } },
        });
        let file = json!({
            "name": "web", "id": "web1", "port": 80, "checks": [{ "ttl": "1s" }],
            "tagged_addresses": { "wan": { "address": "192.0.2.1", "port": 81 } },
            "enable_tag_override": true, "weights": { "passing": 5 },
            "connect": { "sidecar_service": { "port": 21007 } },
        });
        let read = ServiceDefinition::of(api).unwrap();
        assert_eq!(ServiceDefinition::of(file).unwrap(), read);
        let weights = Weights {
            passing: 5,
            warning: 0,
        };
        assert_eq!(read.weights, Some(weights));
        assert_eq!(read.sidecar.unwrap().port, 21007);
    }

    #[test]
    fn a_check_that_says_nothing_is_none() {
        let nothing =
            json!({ "Name": "", "Interval": "0s", "TTL": "", "Header": null, "Method": "" });
        let value = json!({ "Name": "web", "Check": nothing, "Checks": null });
        assert!(ServiceDefinition::of(value).unwrap().checks.is_empty());
        let value = json!({ "Name": "web", "Check": { "Name": "foo" } });
        assert_eq!(ServiceDefinition::of(value).unwrap().checks.len(), 1);
    }

    #[test]
    fn what_is_not_known_or_of_the_wrong_kind_is_refused() {
        for (value, refused) in [
            (json!({ "Bogus": 1 }), "json: unknown field \"Bogus\""),
            (
                json!({ "Port": "80" }),
                "Port must be a whole number, not a text",
            ),
            (json!([]), "it must be an object, not a list"),
            (
                json!({ "Checks": [{ "TTL": "1s" }, { "Bogus": 1 }] }),
                "json: unknown field \"Bogus\" in Checks[1]",
            ),
            (
                json!({ "Namespace": "other" }),
                "Namespace must be default or nothing: there is only one here",
            ),
            (
                json!({ "Connect": { "SidecarService": { "Proxy": { "Bogus": 1 } } } }),
                "json: unknown field \"Bogus\" in Connect.SidecarService.Proxy",
            ),
        ] {
            let error = ServiceDefinition::of(value).unwrap_err();
            assert_eq!(error.to_string(), refused);
        }
    }
}
