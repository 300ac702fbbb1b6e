//! Of which service a proxy is the proxy.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::local::definition::fields::{Fields, Malformed};

/// Settings of a proxy: the service for which it stands, and the upstreams of its own service through it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Proxy {
    /// The service's name.
    pub destination_service_name: String,
    /// Its id.
    pub destination_service_id: String,
    /// Address on which it listens, for the proxy.
    pub local_service_address: String,
    /// The port there; 0: not given.
    pub local_service_port: i64,
    /// The proxy's own.
    pub config: Map<String, Value>,
    /// Upstreams that are reached through it, each in the form of Consul's API.
    pub upstreams: Vec<Map<String, Value>>,
    /// Use of gateways.
    pub mesh_gateway: Map<String, Value>,
    /// Exposed paths past it.
    pub expose: Map<String, Value>,
}

impl Proxy {
    /// Reads it.
    pub(crate) fn read(mut fields: Fields) -> Result<Self, Malformed> {
        let proxy = Self {
            destination_service_name: fields.text("DestinationServiceName")?,
            destination_service_id: fields.text("DestinationServiceID")?,
            local_service_address: fields.text("LocalServiceAddress")?,
            local_service_port: fields.number("LocalServicePort")?.unwrap_or_default(),
            config: fields.opaque("Config")?,
            upstreams: fields
                .objects("Upstreams")?
                .into_iter()
                .map(upstream)
                .collect::<Result<_, _>>()?,
            mesh_gateway: in_api_form(fields.opaque("MeshGateway")?),
            expose: in_api_form(fields.opaque("Expose")?),
        };
        fields.finish()?;
        Ok(proxy)
    }
}

/// An upstream of a proxy.
fn upstream(mut fields: Fields) -> Result<Map<String, Value>, Malformed> {
    let mut upstream = Map::new();
    let kind = fields.text("DestinationType")?;
    let kind = if kind.is_empty() { "service" } else { &kind };
    upstream.insert("DestinationType".to_owned(), kind.into());
    for name in [
        "DestinationName",
        "DestinationNamespace",
        "Datacenter",
        "LocalBindAddress",
    ] {
        let text = fields.text(name)?;
        if !text.is_empty() {
            upstream.insert(name.to_owned(), text.into());
        }
    }
    if let Some(port) = fields.number("LocalBindPort")? {
        upstream.insert("LocalBindPort".to_owned(), port.into());
    }
    let config = fields.opaque("Config")?;
    if !config.is_empty() {
        upstream.insert("Config".to_owned(), config.into());
    }
    let gateway = in_api_form(fields.opaque("MeshGateway")?);
    upstream.insert("MeshGateway".to_owned(), gateway.into());
    fields.finish()?;
    Ok(upstream)
}

/// The names of an object as Consul's API has them: `local_path_port` is `LocalPathPort`.
fn in_api_form(object: Map<String, Value>) -> Map<String, Value> {
    let fields = object.into_iter();
    fields
        .map(|(name, value)| {
            let words = name.split('_').map(|word| {
                let mut letters = word.chars();
                let first = letters.next().into_iter().flat_map(char::to_uppercase);
                first.chain(letters).collect::<String>()
            });
            (words.collect(), value_in_api_form(value))
        })
        .collect()
}

fn value_in_api_form(value: Value) -> Value {
    match value {
        Value::Object(object) => in_api_form(object).into(),
        Value::Array(items) => items.into_iter().map(value_in_api_form).collect(),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_files_form_becomes_that_of_the_api() {
        let value = json!({
            "destination_service_name": "web",
            "config": { "own_name": 1 },
            "upstreams": [{ "destination_name": "db", "local_bind_port": 5000 }],
            "expose": { "paths": [{ "local_path_port": 1 }] },
        });
        let proxy = Proxy::read(Fields::of(value, "").unwrap()).unwrap();
        assert_eq!(proxy.destination_service_name, "web");
        assert_eq!(Value::from(proxy.config), json!({ "own_name": 1 }));
        assert_eq!(
            Value::from(proxy.upstreams[0].clone()),
            json!({
                "DestinationType": "service",
                "DestinationName": "db",
                "LocalBindPort": 5000,
                "MeshGateway": {},
            })
        );
        assert_eq!(
            Value::from(proxy.expose),
            json!({ "Paths": [{ "LocalPathPort": 1 }] })
        );
    }
}
