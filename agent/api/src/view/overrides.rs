//! An operator's changes on one node, beside the events.

use std::{fmt, net::IpAddr, num::NonZeroU16};

use serde::{Serialize, Serializer};
use shunt_model::{Override as Change, ServiceId};

use crate::{
    proto::{self, r#override},
    view::error::{Malformed, address},
};

/// A change of endpoints, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override(pub Change);

/// One that holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveOverride {
    /// Change of endpoints.
    #[serde(rename = "override")]
    pub change: Override,
    /// In how many seconds it ends by itself; `None`: never.
    pub ends_in_seconds: Option<u64>,
    /// Number of endpoints that it changes at present.
    pub endpoints: u64,
}

/// An event that waits because it would remove too many frontends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldRemoval {
    /// Its number, by which a decision names it; 0 of an agent of an earlier version.
    pub number: u64,
    /// The event.
    pub event: String,
    /// Number of frontends that it would remove.
    pub removed: u64,
    /// Of how many.
    pub frontends: u64,
    /// Number of events that wait behind it.
    pub waiting: u64,
    /// For how long, in seconds.
    pub seconds: u64,
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Override {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl From<Override> for proto::Override {
    fn from(Override(change): Override) -> Self {
        let number = |port: Option<NonZeroU16>| port.map(|port| port.get().into());
        let change = match change {
            Change::Drain { ip, port } => r#override::Change::Drain(proto::DrainedPlace {
                ip: ip.to_string(),
                port: number(port),
            }),
            Change::DrainNode { node } => r#override::Change::DrainNode(node),
            Change::Weight {
                service: ServiceId { namespace, name },
                ip,
                port,
                weight,
            } => r#override::Change::Weight(proto::WeightOverride {
                service: Some(proto::ServiceId {
                    namespace: namespace.into(),
                    name: name.into(),
                }),
                ip: ip.to_string(),
                port: number(port),
                weight,
            }),
        };
        Self {
            change: Some(change),
        }
    }
}

impl TryFrom<proto::Override> for Override {
    type Error = Malformed;

    fn try_from(message: proto::Override) -> Result<Self, Malformed> {
        let number = |port: Option<u32>| match port {
            None => Ok(None),
            Some(number) => {
                let port = u16::try_from(number).ok().and_then(NonZeroU16::new);
                port.map(Some).ok_or(Malformed::Number(number, "a port"))
            }
        };
        let change = message.change.ok_or(Malformed::Missing("change"))?;
        // An IPv4 address is never in the clothes of an IPv6 one.
        let canonical = |ip: &str| address(ip).map(|ip: IpAddr| ip.to_canonical());
        Ok(Self(match change {
            r#override::Change::Drain(proto::DrainedPlace { ip, port }) => Change::Drain {
                ip: canonical(&ip)?,
                port: number(port)?,
            },
            r#override::Change::DrainNode(node) => Change::DrainNode { node },
            r#override::Change::Weight(proto::WeightOverride {
                service,
                ip,
                port,
                weight,
            }) => {
                let proto::ServiceId { namespace, name } =
                    service.ok_or(Malformed::Missing("service"))?;
                Change::Weight {
                    service: ServiceId::new(&namespace, &name),
                    ip: canonical(&ip)?,
                    port: number(port)?,
                    weight,
                }
            }
        }))
    }
}

impl From<LiveOverride> for proto::LiveOverride {
    fn from(live: LiveOverride) -> Self {
        let LiveOverride {
            change,
            ends_in_seconds,
            endpoints,
        } = live;
        Self {
            r#override: Some(change.into()),
            ends_in_seconds,
            endpoints,
        }
    }
}

impl TryFrom<proto::LiveOverride> for LiveOverride {
    type Error = Malformed;

    fn try_from(message: proto::LiveOverride) -> Result<Self, Malformed> {
        let proto::LiveOverride {
            r#override: change,
            ends_in_seconds,
            endpoints,
        } = message;
        Ok(Self {
            change: change.ok_or(Malformed::Missing("override"))?.try_into()?,
            ends_in_seconds,
            endpoints,
        })
    }
}

impl From<HeldRemoval> for proto::HeldRemoval {
    fn from(held: HeldRemoval) -> Self {
        let HeldRemoval {
            number,
            event,
            removed,
            frontends,
            waiting,
            seconds,
        } = held;
        Self {
            number,
            event,
            removed,
            frontends,
            waiting,
            seconds,
        }
    }
}

impl From<proto::HeldRemoval> for HeldRemoval {
    fn from(message: proto::HeldRemoval) -> Self {
        let proto::HeldRemoval {
            number,
            event,
            removed,
            frontends,
            waiting,
            seconds,
        } = message;
        Self {
            number,
            event,
            removed,
            frontends,
            waiting,
            seconds,
        }
    }
}
