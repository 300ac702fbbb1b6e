//! Endpoints whose node is not known.

use std::net::IpAddr;

use serde::Serialize;

use crate::{
    proto,
    view::error::{Malformed, address},
};

/// An endpoint on another node of a service in mode dsr, whose node is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unlocated {
    /// Its service, as `namespace/name`.
    pub service: String,
    /// Its address.
    pub address: IpAddr,
}

impl From<Unlocated> for proto::UnlocatedEndpoint {
    fn from(endpoint: Unlocated) -> Self {
        let Unlocated { service, address } = endpoint;
        Self {
            service,
            address: address.to_string(),
        }
    }
}

impl TryFrom<proto::UnlocatedEndpoint> for Unlocated {
    type Error = Malformed;

    fn try_from(message: proto::UnlocatedEndpoint) -> Result<Self, Malformed> {
        let proto::UnlocatedEndpoint {
            service,
            address: text,
        } = message;
        Ok(Self {
            service,
            address: address(&text)?,
        })
    }
}
