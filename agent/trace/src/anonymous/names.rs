//! Names: others in their place, the same for the same.

use super::key::Key;
use crate::dump::hex::Hex;

/// Replaces names.
#[derive(Debug)]
pub(crate) struct Names(Key);

impl Names {
    /// By this key.
    pub(crate) fn new(key: &Key) -> Self {
        Self(key.clone())
    }

    fn name(&self, purpose: &str, begin: &str, name: &str) -> String {
        let bytes = self.0.bytes(purpose, name.as_bytes());
        format!("{begin}{}", Hex(bytes[..4].to_vec()))
    }

    /// Returns the replacement of an interface's name. `lo` is that of every node.
    pub(crate) fn interface(&self, name: &str) -> String {
        if name == "lo" {
            return name.to_owned();
        }
        self.name("interface", "if", name)
    }

    /// Returns the replacement of a service's name, `namespace/name`.
    pub(crate) fn service(&self, name: &str) -> String {
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        format!(
            "{}/{}",
            self.name("namespace", "ns", namespace),
            self.name("service", "svc", name)
        )
    }

    /// Returns the replacement of the name of a service's port; an empty name stays empty.
    pub(crate) fn port(&self, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        self.name("port", "port", name)
    }
}
