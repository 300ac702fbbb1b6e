//! The context token: who asks.

use serde::Deserialize;
use shunt_model::Escaped;
use tracing::debug;

/// Properties of a client that count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(default)]
pub(super) struct Client {
    /// The node that the client runs on; without one, it is this node.
    #[serde(rename = "nodeName", deserialize_with = "not_empty")]
    pub(super) node: Option<Box<str>>,
}

impl Client {
    /// The client with this context token, `{"ns":"shop","nodeName":"node-1","pod":"web-1"}`. What is
    /// no such token gives no data on the client.
    pub(super) fn of(token: &str) -> Self {
        if token.is_empty() {
            return Self::default();
        }
        serde_json::from_str(token).unwrap_or_else(|error| {
            // The form of old, `ns:shop`, does not name the node either.
            debug!(token = %Escaped(token), %error, "a context token that is none");
            Self::default()
        })
    }
}

fn not_empty<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<str>>, D::Error> {
    let node = Option::<Box<str>>::deserialize(deserializer)?;
    Ok(node.filter(|node| !node.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_the_node_and_garbage_says_nothing() {
        for (token, node) in [
            (
                r#"{"ns":"shop","nodeName":"node-1","pod":"web-1"}"#,
                Some("node-1"),
            ),
            ("\n{\"nodeName\":\"node-1\",\"new\":[1]}\n", Some("node-1")),
            (r#"{"ns":"shop","nodeName":""}"#, None),
            (r#"{"nodeName":null}"#, None),
            (r#"{"nodeName":7}"#, None),
            ("ns:shop", None),
            ("ns:shop:x", None),
            ("[]", None),
            ("", None),
            ("\u{1b}[2J", None),
        ] {
            assert_eq!(Client::of(token).node.as_deref(), node, "{token}");
        }
    }
}
