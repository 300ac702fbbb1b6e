//! A protocol as it was found in the kernel, which may be one that is not translated.

use std::fmt;

use serde::{Serialize, Serializer};
use shunt_model::Protocol;

use crate::view::error::{BadFilter, Malformed};

/// A transport protocol by its IANA number. Shown by its name if it has one here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProtocolNumber(pub u8);

impl From<Protocol> for ProtocolNumber {
    fn from(protocol: Protocol) -> Self {
        Self(protocol.number())
    }
}

impl TryFrom<i32> for ProtocolNumber {
    type Error = Malformed;

    /// From a message's field.
    fn try_from(number: i32) -> Result<Self, Malformed> {
        let known = u8::try_from(number);
        known
            .map(Self)
            .map_err(|_| Malformed::Value(number, "protocol"))
    }
}

impl ProtocolNumber {
    /// In a message of what is meant, where 0 stands for any.
    pub(super) fn meant(protocol: Option<Self>) -> i32 {
        protocol.map_or(0, |Self(number)| number.into())
    }

    /// From such a message.
    pub(super) fn of_meant(number: i32) -> Result<Option<Self>, BadFilter> {
        match u8::try_from(number) {
            Ok(0) => Ok(None),
            Ok(number) => Ok(Some(Self(number))),
            Err(_) => Err(BadFilter::Protocol(number)),
        }
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
