//! The context token: who asks.

use serde::Deserialize;
use shunt_model::Escaped;
use tracing::debug;

/// The properties of a client that its token has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Token {
    /// The properties by which addresses are chosen.
    pub(super) client: Client,
    /// The namespace that the client is in, by whose ServiceProfiles its requests are treated.
    pub(super) namespace: Option<Box<str>>,
}

/// Properties of a client that count for addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Client {
    /// The node that the client runs on; without one, it is this node.
    pub(super) node: Option<Box<str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Json {
    #[serde(rename = "nodeName")]
    node: Option<Box<str>>,
    #[serde(rename = "ns")]
    namespace: Option<Box<str>>,
}

impl Token {
    /// Reads a token, `{"ns":"shop","nodeName":"node-1","pod":"web-1"}`, or in the form of old `ns:shop`. What is
    /// no such token gives no data on the client.
    pub(super) fn of(token: &str) -> Self {
        if token.is_empty() {
            return Self::default();
        }
        let Json { node, namespace } = serde_json::from_str(token).unwrap_or_else(|error| {
            let namespace = token.strip_prefix("ns:").filter(|rest| !rest.contains(':'));
            if namespace.is_none() {
                debug!(token = %Escaped(token), %error, "a context token that is none");
            }
            Json {
                node: None,
                namespace: namespace.map(Into::into),
            }
        });
        let named = |name: Option<Box<str>>| name.filter(|name| !name.is_empty());
        Self {
            client: Client { node: named(node) },
            namespace: named(namespace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_node_and_namespace_and_garbage_says_nothing() {
        for (token, node, namespace) in [
            (
                r#"{"ns":"shop","nodeName":"node-1","pod":"web-1"}"#,
                Some("node-1"),
                Some("shop"),
            ),
            (
                "\n{\"nodeName\":\"node-1\",\"new\":[1]}\n",
                Some("node-1"),
                None,
            ),
            (r#"{"ns":"shop","nodeName":""}"#, None, Some("shop")),
            (r#"{"ns":"","nodeName":null}"#, None, None),
            (r#"{"nodeName":7}"#, None, None),
            ("ns:shop", None, Some("shop")),
            ("ns:", None, None),
            ("ns:shop:x", None, None),
            ("[]", None, None),
            ("", None, None),
            ("\u{1b}[2J", None, None),
        ] {
            let found = Token::of(token);
            assert_eq!(found.client.node.as_deref(), node, "{token}");
            assert_eq!(found.namespace.as_deref(), namespace, "{token}");
        }
    }
}
