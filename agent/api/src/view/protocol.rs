//! A protocol as it was found in the kernel, which may be one that is not translated.

use std::fmt;

use serde::{Serialize, Serializer};
use shunt_model::Protocol;

/// A transport protocol by its IANA number. Shown by its name if it has one here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProtocolNumber(pub u8);

impl From<Protocol> for ProtocolNumber {
    fn from(protocol: Protocol) -> Self {
        Self(protocol.number())
    }
}

impl fmt::Display for ProtocolNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Protocol::from_number(self.0) {
            Some(protocol) => protocol.fmt(f),
            None => self.0.fmt(f),
        }
    }
}

impl Serialize for ProtocolNumber {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
