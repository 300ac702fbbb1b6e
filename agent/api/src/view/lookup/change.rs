//! Changes of an address that is followed.

use serde::Serialize;

use crate::{
    proto,
    view::{
        error::Malformed,
        lookup::{
            answer::{Membership, each},
            endpoint::{BehindEndpoint, EndpointKey},
            target::Target,
        },
    },
};

/// One change of a stream, of all its pieces: all there is, or what is new. The order of the fields is the order in JSON;
/// what is not new is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Counts the events that took effect since the agent's start.
    pub generation: u64,
    /// True if it is all there is.
    pub snapshot: bool,
    /// True if it belongs to others than before.
    pub rebind: bool,
    /// Kind of the address now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// All that it belongs to now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<Vec<Target>>,
    /// Endpoints that are new, or in their new form.
    pub adds: Vec<BehindEndpoint>,
    /// Endpoints that are gone, after the adds.
    pub removes: Vec<EndpointKey>,
    /// There is no endpoint now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty: Option<Empty>,
    /// All service ports that have it as an endpoint now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_of: Option<Vec<Membership>>,
}

/// There is no endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Empty {
    /// True if something is there all the same.
    pub exists: bool,
}

impl TryFrom<proto::WatchResponse> for Change {
    type Error = Malformed;

    fn try_from(message: proto::WatchResponse) -> Result<Self, Malformed> {
        let proto::WatchResponse {
            generation,
            snapshot,
            rebind,
            targets,
            adds,
            removes,
            empty,
            member_of,
            more: _,
        } = message;
        let (kind, targets) = match targets {
            Some(proto::Targets { kind, list }) => (Some(kind), Some(each(list)?)),
            None => (None, None),
        };
        let member_of = member_of.map(|proto::Memberships { list }| each(list));
        Ok(Self {
            generation,
            snapshot,
            rebind,
            kind,
            targets,
            adds: each(adds)?,
            removes: each(removes)?,
            empty: empty.map(|proto::Empty { exists }| Empty { exists }),
            member_of: member_of.transpose()?,
        })
    }
}
