//! Split of a frontend's new connections among several services.

use std::{fmt, net::IpAddr};

use serde::Serialize;
use shunt_model::{SplitMode, SplitShares, SplitTarget};

use crate::{
    message, proto,
    view::{
        error::{Malformed, address, port},
        text::shown,
    },
};

/// A split, as it is shown. The order of the fields is the order in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Split {
    /// Use of the share of a backend that cannot be used.
    #[serde(serialize_with = "shown")]
    pub mode: SplitMode,
    /// The share of connections that is refused, beside the weights of the frontend's backends; 0: none is,
    /// or all are, since no backend takes any.
    pub refused: u32,
    /// As the events name them.
    pub backends: Vec<SplitBackend>,
}

/// A backend of a split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SplitBackend {
    /// Target that takes its connections.
    #[serde(flatten)]
    pub target: Target,
    /// Its share is weight / sum of weights.
    pub weight: u32,
}

/// Target that takes the connections of a backend of a split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Target {
    /// A service's own endpoints.
    Service {
        /// `namespace/name`.
        service: String,
        /// The service's port in host byte order.
        port: u16,
    },
    /// An address.
    Address {
        /// The address.
        ip: IpAddr,
        /// Its port in host byte order.
        port: u16,
    },
    /// Nothing.
    Invalid {
        /// Why.
        invalid: String,
    },
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service { service, port } => write!(f, "{service}:{port}"),
            Self::Address { ip, port } => {
                write!(f, "{}", std::net::SocketAddr::new(*ip, *port))
            }
            Self::Invalid { invalid } => write!(f, "invalid ({invalid})"),
        }
    }
}

impl From<&SplitShares> for Split {
    fn from(shares: &SplitShares) -> Self {
        let SplitShares {
            split,
            of_backends: _,
            refused,
            first: _,
        } = shares;
        let backends = split.backends.iter().map(|backend| {
            let shunt_model::SplitBackend { target, weight } = backend;
            SplitBackend {
                target: match target {
                    SplitTarget::Service { id, port } => Target::Service {
                        service: id.to_string(),
                        port: *port,
                    },
                    SplitTarget::Address { ip, port } => Target::Address {
                        ip: *ip,
                        port: port.get(),
                    },
                    SplitTarget::Invalid { reason } => Target::Invalid {
                        invalid: reason.to_string(),
                    },
                },
                weight: *weight,
            }
        });
        Self {
            mode: split.mode,
            refused: *refused,
            backends: backends.collect(),
        }
    }
}

impl From<Split> for proto::FrontendSplit {
    fn from(split: Split) -> Self {
        let Split {
            mode,
            refused,
            backends,
        } = split;
        Self {
            mode: message::split_mode(mode).into(),
            backends: backends.into_iter().map(Into::into).collect(),
            refused,
        }
    }
}

impl From<SplitBackend> for proto::SplitBackend {
    fn from(backend: SplitBackend) -> Self {
        let SplitBackend { target, weight } = backend;
        let mut message = Self {
            weight: Some(weight),
            ..Self::default()
        };
        match target {
            Target::Service { service, port } => {
                let (namespace, name) = service.split_once('/').unwrap_or_default();
                message.service = Some(proto::ServiceId {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                });
                message.port = port.into();
            }
            Target::Address { ip, port } => {
                message.ip = Some(ip.to_string());
                message.port = port.into();
            }
            Target::Invalid { invalid } => message.invalid = Some(invalid),
        }
        message
    }
}

impl TryFrom<proto::FrontendSplit> for Split {
    type Error = Malformed;

    fn try_from(message: proto::FrontendSplit) -> Result<Self, Malformed> {
        let proto::FrontendSplit {
            mode,
            backends,
            refused,
        } = message;
        Ok(Self {
            mode: match proto::SplitMode::try_from(mode) {
                Ok(proto::SplitMode::Available) => SplitMode::Available,
                Ok(proto::SplitMode::Strict) => SplitMode::Strict,
                Ok(proto::SplitMode::First) => SplitMode::First,
                Ok(proto::SplitMode::Unspecified) | Err(_) => {
                    return Err(Malformed::Value(mode, "split mode"));
                }
            },
            refused,
            backends: backends
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl TryFrom<proto::SplitBackend> for SplitBackend {
    type Error = Malformed;

    fn try_from(message: proto::SplitBackend) -> Result<Self, Malformed> {
        let proto::SplitBackend {
            service,
            ip,
            port: number,
            weight,
            invalid,
        } = message;
        let target = match (service, ip, invalid) {
            (Some(proto::ServiceId { namespace, name }), _, _) => Target::Service {
                service: format!("{namespace}/{name}"),
                port: port(number)?,
            },
            (None, Some(text), _) => Target::Address {
                ip: address(&text)?,
                port: port(number)?,
            },
            (None, None, Some(invalid)) => Target::Invalid { invalid },
            (None, None, None) => return Err(Malformed::Missing("split target")),
        };
        Ok(Self {
            target,
            weight: weight.unwrap_or(1),
        })
    }
}
