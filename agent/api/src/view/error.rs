//! Faults of an agent's answer, and of a filter in a question to it.

use std::net::IpAddr;

use thiserror::Error;

/// A message of the agent makes no sense: it is of another version, or no agent's.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// A message lacks a part.
    #[error("it has no {0}")]
    Missing(&'static str),
    /// A text is not an address.
    #[error("`{0}` is not an IP address")]
    Address(String),
    /// A number is more than a port or a protocol can be.
    #[error("{0} is more than {1} can be")]
    Number(u32, &'static str),
    /// A number is no value of an enum.
    #[error("{0} is no {1}")]
    Value(i32, &'static str),
}

/// A filter, or a part of it, makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadFilter {
    /// The text is no place.
    #[error(
        "`{0}` is not an address, a range or one of them with a port: 10.1.1.5, 10.1.1.5:80, \
         10.1.0.0/16, [fd00::1]:80"
    )]
    NotAPlace(String),
    /// The text is no address.
    #[error("`{0}` is not an IP address")]
    Address(String),
    /// There is no such kind of frontend.
    #[error("`{0}` is no kind of frontend")]
    FrontendKind(String),
    /// There is no such port.
    #[error("{0} is no port")]
    Port(u32),
    /// There is no such protocol.
    #[error("{0} is no protocol")]
    Protocol(i32),
    /// There is no such state.
    #[error("{0} is no state of a connection")]
    State(i32),
    /// There is no such kind of event.
    #[error("{0} is no kind of event")]
    Kind(i32),
}

/// Returns the address of a message.
pub(super) fn address(text: &str) -> Result<IpAddr, Malformed> {
    text.parse()
        .map_err(|_| Malformed::Address(text.to_owned()))
}

/// Returns the port of a message.
pub(super) fn port(number: u32) -> Result<u16, Malformed> {
    u16::try_from(number).map_err(|_| Malformed::Number(number, "a port"))
}
