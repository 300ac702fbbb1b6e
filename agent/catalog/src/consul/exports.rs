//! Gateways of ours: frontends that are offered to other datacenters, registered with the Consul agent,
//! where the other side finds them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    time::{Duration, SystemTime},
};

use hyper::Method;
use serde::{Deserialize, Serialize};
use shunt_runtime::ConsulMonitor;
use tokio::{sync::mpsc, time::sleep};
use tracing::{info, warn};

use crate::{
    consul::{
        http::{client::Client, error::AskError},
        objects::{null, part, read},
        watch::{
            pace::{Backoff, Pace},
            told::{News, Reason, Told, Topic, Trouble},
        },
    },
    instances::{
        frontend::{Frontend, Vip},
        tier::{Export, GATEWAYS, OF_CONNECT, OF_PROTOCOL, OF_SERVICE},
    },
};

/// Interval of the checks that the agent still has what was registered: it may be built anew.
const AGAIN: Duration = Duration::from_secs(15);

/// Interval of the checks that the frontends are in the kernel.
const SOON: Duration = Duration::from_millis(200);

/// Longest time for the agent's answer.
const LIMIT: Duration = Duration::from_secs(10);

/// Registration of a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Registration {
    #[serde(rename = "ID")]
    id: String,
    /// The agent shows it under another name than it takes it.
    #[serde(rename(serialize = "Name", deserialize = "Service"))]
    name: String,
    #[serde(default, deserialize_with = "null")]
    address: String,
    #[serde(default, deserialize_with = "null")]
    port: u16,
    #[serde(default, deserialize_with = "null")]
    meta: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "null")]
    tagged_addresses: BTreeMap<String, Tagged>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Tagged {
    address: String,
    port: u16,
}

impl Registration {
    /// Returns whether the agent has it as it is to be; it adds tagged addresses of its own.
    fn is_as(&self, wanted: &Self) -> bool {
        let tagged = |name| self.tagged_addresses.get(name);
        let mut addresses = wanted.tagged_addresses.iter();
        self.id == wanted.id
            && self.name == wanted.name
            && (&self.address, self.port) == (&wanted.address, wanted.port)
            && self.meta == wanted.meta
            && addresses.all(|(name, address)| tagged(name) == Some(address))
    }
}

/// Returns the prefix of the ids of this node's gateways: another agent's are not ours to take away.
fn prefix(node: &str) -> String {
    format!("{GATEWAYS}:{node}:")
}

/// Returns the registrations of a frontend: one gateway for each of its addresses.
pub(super) fn registrations(frontend: &Frontend, node: &str) -> Vec<Registration> {
    let (Some(export), Vip::Fixed(ips), Some(port)) =
        (&frontend.export, &frontend.vip, frontend.port)
    else {
        return Vec::new();
    };
    let name = &frontend.id.name;
    let of = |ip: &IpAddr| {
        let own = SocketAddr::new(*ip, port);
        let wan = match export {
            Export::AsIs => own,
            Export::At(at) => *at,
        };
        let tagged = Tagged {
            address: wan.ip().to_string(),
            port: wan.port(),
        };
        let meta = [
            (OF_SERVICE, frontend.service.to_string()),
            (OF_PROTOCOL, frontend.protocol.name().to_ascii_lowercase()),
            (OF_CONNECT, frontend.connect.to_string()),
        ];
        Registration {
            id: format!("{}{name}:{own}", prefix(node)),
            name: GATEWAYS.to_owned(),
            address: own.ip().to_string(),
            port,
            meta: meta
                .map(|(key, value)| (key.to_owned(), value))
                .into_iter()
                .collect(),
            tagged_addresses: [("wan".to_owned(), tagged)].into(),
        }
    };
    ips.iter().map(of).collect()
}

/// Keeps these, and no others of this node, registered with the agent, for ever. Begins when the kernel has
/// their frontends.
pub(super) async fn keep_registered(
    client: Client,
    node: Box<str>,
    wanted: Vec<Registration>,
    monitor: ConsulMonitor,
    told: mpsc::Sender<Told>,
) {
    while !monitor.update(|state| state.synced) {
        sleep(SOON).await;
    }
    let pace = Pace::default();
    let mut backoff = Backoff::default();
    let mut stale_since = None;
    loop {
        let outcome = match register(&client, &node, &wanted).await {
            // There is nothing to offer, and the token may not look whether there is something to take back.
            Err(error) if wanted.is_empty() && error.code() == Some(403) => Ok(()),
            outcome => outcome,
        };
        let is_done = outcome.is_ok() && wanted.is_empty();
        let (news, pause) = match outcome {
            Ok(()) => {
                backoff.reset();
                (stale_since.take().map(|_| News::UpToDate), AGAIN)
            }
            Err(error) => {
                let since = *stale_since.get_or_insert_with(SystemTime::now);
                let reason = Reason::Failed(error);
                let news = News::Stale(Trouble { since, reason });
                (Some(news), backoff.pause(&pace))
            }
        };
        if let Some(news) = news {
            let topic = Topic::Exports;
            if told.send(Told { topic, news }).await.is_err() {
                return;
            }
        }
        if is_done {
            return;
        }
        sleep(pause).await;
    }
}

/// Registers what the agent does not have as it is to be, and takes back what is no gateway any more.
async fn register(client: &Client, node: &str, wanted: &[Registration]) -> Result<(), AskError> {
    let path = "/v1/agent/services";
    let answer = client.get(0, path, LIMIT).await?;
    let known: BTreeMap<String, serde_json::Value> = read(&answer.body)?;
    let prefix = prefix(node);
    for registration in wanted {
        let before = known.get(&registration.id);
        // What cannot be read is not as it is to be.
        let before = before.and_then(|it| Registration::deserialize(it).ok());
        if before.is_some_and(|before| before.is_as(registration)) {
            continue;
        }
        let body = serde_json::to_vec(registration)
            .map_err(|error| AskError::Unreadable(error.to_string()))?;
        let path = "/v1/agent/service/register";
        client.send(Method::PUT, path, body, LIMIT).await?;
        info!("gateway {} is registered", registration.id);
    }
    let wanted: BTreeSet<&str> = wanted.iter().map(|it| &*it.id).collect();
    for id in known.keys() {
        if id.starts_with(&prefix) && !wanted.contains(&**id) {
            let path = format!("/v1/agent/service/deregister/{}", part(id));
            client.send(Method::PUT, &path, Vec::new(), LIMIT).await?;
            warn!("gateway {id} is no frontend any more, and taken back");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::instances::configuration::parse::parse;

    fn of(lines: &str) -> Vec<Registration> {
        let text = format!(
            "[[frontend]]\nservice = \"web\"\nvip = [\"192.0.2.1\", \"fd00::1\"]\nport = 21500\n{lines}\n"
        );
        registrations(&parse(&text).unwrap()[0], "n1")
    }

    #[test]
    fn a_frontend_that_is_offered_is_a_gateway_at_each_of_its_addresses() {
        assert_eq!(of(""), []);
        let [v4, v6] = &of("export = true")[..] else {
            panic!("one for each address")
        };
        let shown = serde_json::to_value(v4).unwrap();
        let expected = json!({
            "ID": "shunt-gateway:n1:web:192.0.2.1:21500", "Name": "shunt-gateway",
            "Address": "192.0.2.1", "Port": 21500,
            "Meta": {
                "shunt-service": "web", "shunt-protocol": "tcp", "shunt-connect": "false",
            },
            "TaggedAddresses": { "wan": { "Address": "192.0.2.1", "Port": 21500 } },
        });
        assert_eq!(shown, expected);
        assert_eq!(v6.id, "shunt-gateway:n1:web:[fd00::1]:21500");
        let behind = &of("export = \"198.51.100.7:443\"")[0];
        let wan = &behind.tagged_addresses["wan"];
        assert_eq!((&*wan.address, wan.port), ("198.51.100.7", 443));
        assert_eq!((&*behind.address, behind.port), ("192.0.2.1", 21500));
    }

    #[test]
    fn what_the_agent_shows_is_known_again_and_any_difference_counts() {
        let wanted = &of("export = true")[0];
        let mut shown = serde_json::to_value(wanted).unwrap();
        let fields = shown.as_object_mut().unwrap();
        let name = fields.remove("Name").unwrap();
        fields.insert("Service".into(), name);
        fields["TaggedAddresses"]["lan_ipv4"] = json!({ "Address": "192.0.2.1", "Port": 21500 });
        let read = |value: &serde_json::Value| Registration::deserialize(value).unwrap();
        assert!(read(&shown).is_as(wanted));
        for (field, other) in [
            ("Port", json!(21501)),
            ("Address", json!("192.0.2.2")),
            ("Meta", json!(null)),
            ("TaggedAddresses", json!({})),
        ] {
            let mut shown = shown.clone();
            shown[field] = other;
            assert!(!read(&shown).is_as(wanted), "{field}");
        }
    }
}
