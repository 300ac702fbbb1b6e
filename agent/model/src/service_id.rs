//! The identity of a service.

use std::fmt;

/// The identity of a service: shown as `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId {
    /// The namespace, not empty.
    pub namespace: Box<str>,
    /// The name within the namespace, not empty.
    pub name: Box<str>,
}

impl ServiceId {
    /// The identity of the service `name` in `namespace`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name } = self;
        write!(f, "{namespace}/{name}")
    }
}
