//! The keys that frontends have in the kernel's tables, from any writer.

use std::{cmp::Ordering, fmt, net::IpAddr};

use shunt_common::FrontendKey as TableKey;
use shunt_model::{FrontendKey, Protocol};

use crate::maps::family::FromIp;

/// The key of an entry of a frontend table. Ordered as [`FrontendKey`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LiveKey {
    /// The frontend's address.
    pub address: IpAddr,
    /// Its port in host byte order; 0 if someone else wrote that.
    pub port: u16,
    /// Its protocol, IANA number; any if someone else wrote it.
    pub protocol: u8,
}

impl LiveKey {
    /// The frontend of an entry of a family's table, of whatever scope.
    pub(crate) fn of<F: FromIp>(key: &TableKey<F>) -> Self {
        Self {
            address: F::ip(key.address),
            port: u16::from_be(key.port),
            protocol: key.protocol,
        }
    }

    /// The key of its entry in a family's table; `None` if it is of the other family.
    pub(crate) fn entry<F: FromIp>(&self) -> Option<TableKey<F>> {
        let Self {
            address,
            port,
            protocol,
        } = *self;
        Some(TableKey::new(F::address(address)?, port.to_be(), protocol))
    }

    /// The frontend with this key, if there can be one.
    pub fn frontend(&self) -> Option<FrontendKey> {
        let Self {
            address,
            port,
            protocol,
        } = *self;
        Some(FrontendKey {
            address,
            port,
            protocol: Protocol::from_number(protocol)?,
        })
    }

    /// Returns the sort key.
    pub fn order(&self) -> (IpAddr, u16, Option<Protocol>, u8) {
        (
            self.address,
            self.port,
            Protocol::from_number(self.protocol),
            self.protocol,
        )
    }
}

impl Ord for LiveKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for LiveKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<FrontendKey> for LiveKey {
    fn from(key: FrontendKey) -> Self {
        let FrontendKey {
            address,
            port,
            protocol,
        } = key;
        Self {
            address,
            port,
            protocol: protocol.number(),
        }
    }
}

impl fmt::Display for LiveKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frontend() {
            Some(key) => key.fmt(f),
            None => {
                let address = std::net::SocketAddr::new(self.address, self.port);
                write!(f, "{address}/{}", self.protocol)
            }
        }
    }
}
