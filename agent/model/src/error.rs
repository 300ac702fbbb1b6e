//! Faults of an event.

use std::{fmt, net::IpAddr};

use ipnet::{IpNet, Ipv4Net};
use thiserror::Error;

use crate::{escaped::Escaped, protocol::Protocol};

/// The reason for the refusal of an event: the service, the field, and what is wrong with it.
///
/// Shown as `service default/web: ports.http.port: the port is 0`, with text of the event
/// [escaped](Escaped).
#[derive(Debug, PartialEq, Eq, Error)]
pub struct EventError {
    /// The service (`namespace/name`) that is wrong, where it is known.
    pub service: Option<String>,
    /// The path of the field, from the service if one is named, else from the event. Empty: the
    /// event as a whole.
    pub field: String,
    /// The fault.
    pub fault: Fault,
}

impl EventError {
    /// The fault, its place still to be named by [`within`](Self::within).
    pub const fn new(fault: Fault) -> Self {
        Self {
            service: None,
            field: String::new(),
            fault,
        }
    }

    /// The same error, seen from one level further out: `parent.field`, or `parent[0]`.
    #[must_use]
    pub fn within(mut self, parent: impl fmt::Display) -> Self {
        let dot = if self.field.is_empty() || self.field.starts_with('[') {
            ""
        } else {
            "."
        };
        self.field = format!("{parent}{dot}{}", self.field);
        self
    }
}

impl From<Fault> for EventError {
    fn from(fault: Fault) -> Self {
        Self::new(fault)
    }
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            service,
            field,
            fault,
        } = self;
        if let Some(service) = service {
            write!(f, "service {}: ", Escaped(service))?;
        }
        if !field.is_empty() {
            write!(f, "{}: ", Escaped(field))?;
        }
        write!(f, "{}", Escaped(fault))
    }
}

/// Each way in which a field, or the event as a whole, can be wrong.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The line is not JSON, or is cut off.
    #[error("not valid JSON: {reason} (column {column})")]
    Syntax {
        /// The parser's words.
        reason: String,
        /// Counted in bytes from 1.
        column: usize,
    },
    /// JSON is UTF-8 (RFC 8259 section 8.1).
    #[error("not valid UTF-8 (column {column})")]
    Encoding {
        /// Counted in bytes from 1.
        column: usize,
    },
    /// The line is too long to be kept in memory; it is skipped.
    #[error("longer than {limit} bytes")]
    TooLong {
        /// The longest line that is read.
        limit: usize,
    },
    /// JSON of another shape: an unknown, missing or repeated field, or a value of another type.
    #[error("{0}")]
    Shape(String),
    /// The event's name is none that there is.
    #[error("unknown event `{found}`, expected {expected}")]
    UnknownEvent {
        /// The name that was given.
        found: String,
        /// All names.
        expected: &'static str,
    },
    /// The stream went on with something else, or ended.
    #[error("the snapshot is unfinished: its last piece did not come")]
    UnfinishedSnapshot,
    /// The event cannot do without this field.
    #[error("missing field `{0}`")]
    MissingField(&'static str),
    /// The field belongs to another event.
    #[error("unknown field `{field}` of {event}, expected {expected}")]
    ForeignField {
        /// The field's name.
        field: &'static str,
        /// The event's name.
        event: &'static str,
        /// The names of the event's fields.
        expected: String,
    },
    /// A name out of a fixed list was expected.
    #[error("unknown value `{found}`, expected {expected}")]
    UnknownValue {
        /// The value that was given.
        found: String,
        /// The values that there are.
        expected: &'static str,
    },
    /// Two nodes of one name.
    #[error("the node is listed twice")]
    DuplicateNode,
    /// An address leads to one node.
    #[error("{address} is an address of the node `{other}` too")]
    AddressOfNode {
        /// The address.
        address: IpAddr,
        /// The node that was listed before.
        other: String,
    },
    /// The text is not an address.
    #[error("`{0}` is not an IP address")]
    NotAnAddress(String),
    /// An address that can stand for no service, backend or node.
    #[error("{address} is {kind} address, which cannot be used here")]
    UnusableAddress {
        /// The address.
        address: IpAddr,
        /// With its article: `a multicast`, `the unspecified`.
        kind: &'static str,
    },
    /// An IPv4 address written as an IPv6 one.
    #[error("IPv4/IPv6 mix-up: {found} is an IPv4-mapped address, write {instead}")]
    MappedAddress {
        /// The address that was given.
        found: IpAddr,
        /// The IPv4 address inside.
        instead: IpAddr,
    },
    /// A range of IPv4 addresses written as IPv6 ones.
    #[error("IPv4/IPv6 mix-up: {found} is a range of IPv4-mapped addresses, write {instead}")]
    MappedRange {
        /// The range that was given.
        found: IpNet,
        /// The IPv4 range inside.
        instead: Ipv4Net,
    },
    /// A service has one ClusterIP of each family.
    #[error("IPv4/IPv6 mix-up: the service has another {family} address in {first}")]
    SecondClusterIp {
        /// The family.
        family: &'static str,
        /// The path of the first one.
        first: String,
    },
    /// A backend of a family in which the service has no address.
    #[error("IPv4/IPv6 mix-up: an {backend} backend, but the service has {service} addresses only")]
    ForeignFamily {
        /// The backend's family.
        backend: &'static str,
        /// The family of the service's addresses.
        service: &'static str,
    },
    /// The text is not a range of addresses.
    #[error("`{0}` is not an address range such as 192.0.2.0/24")]
    NotARange(String),
    /// A range of services' addresses that leaves no address to anybody else.
    #[error("{0} is every address there is, and cannot be the services' alone")]
    EveryAddress(IpNet),
    /// Port 0 is none.
    #[error("the port is 0")]
    ZeroPort,
    /// The text is neither a port nor a range of ports.
    #[error("`{0}` is not a port or a range of ports such as 3306-3310")]
    NotAPortRange(String),
    /// One address stands twice in a service, so that each of its frontends would.
    #[error("duplicate frontend: {address} is already in {first}")]
    DuplicateAddress {
        /// The address.
        address: IpAddr,
        /// The path of the first occurrence.
        first: String,
    },
    /// Two ports of a service share port and protocol, or node port and protocol.
    #[error("duplicate frontend: {port}/{protocol} is already in {first}")]
    DuplicatePort {
        /// The port or node port.
        port: u16,
        /// Its protocol.
        protocol: Protocol,
        /// The path of the first occurrence.
        first: String,
    },
    /// One key stands twice in a JSON object.
    #[error("the name is given twice")]
    DuplicateName,
    /// One service stands twice in an event.
    #[error("the service is already in {first}")]
    DuplicateService {
        /// The path of the first occurrence.
        first: String,
    },
    /// One workload stands twice in an event.
    #[error("the workload is already in {first}")]
    DuplicateWorkload {
        /// The path of the first occurrence.
        first: String,
    },
    /// A proxy with several identities, or a part of one.
    #[error("a proxy has either `service_account` and `control_plane`, or `uri` and `server_name`")]
    MeshIdentity,
    /// One backend stands twice in a list, in two versions.
    #[error("the same backend as {first}, but not with the same properties")]
    ContradictoryBackend {
        /// The path of the first occurrence.
        first: String,
    },
    /// Backends for a port that the service does not have.
    #[error("the service declares no such port")]
    UndeclaredPort,
    /// A backend that does not run here cannot be in the Local set.
    #[error("scope Local, but the backend is not local")]
    RemoteInLocalScope,
    /// A backend of a split that is several things, or none.
    #[error("a backend is either `service` and `port`, or `ip` and `port`, or `invalid`")]
    SplitTarget,
    /// The shares of a split are parts of a u32.
    #[error("the sum of the split's weights exceeds {max}", max = u32::MAX)]
    SplitOverflow,
    /// A name that must not be empty is empty.
    #[error("the name is empty")]
    EmptyName,
    /// A name with characters that it cannot have.
    #[error("`{0}` is not a name: `/`, white space and control characters are not allowed")]
    BadName(String),
    /// The kernel knows no interface name of that length (IFNAMSIZ in linux/if.h).
    #[error("`{0}` is longer than the 15 bytes that an interface name has at most")]
    LongInterfaceName(String),
    /// The text has signs of a pattern, but not as a pattern has them.
    #[error("`{pattern}` is not a pattern for interface names such as veth*: {reason}")]
    BadPattern {
        /// The text.
        pattern: String,
        /// The library's words.
        reason: &'static str,
    },
}
