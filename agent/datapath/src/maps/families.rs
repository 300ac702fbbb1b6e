//! The address families that are translated.

use std::net::IpAddr;

/// The families that are translated. Those that are not have tables of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Families {
    /// IPv4.
    pub ipv4: bool,
    /// IPv6.
    pub ipv6: bool,
}

impl Default for Families {
    /// Both.
    fn default() -> Self {
        Self {
            ipv4: true,
            ipv6: true,
        }
    }
}

impl Families {
    /// Neither.
    pub const NONE: Self = Self {
        ipv4: false,
        ipv6: false,
    };

    /// Returns whether that of the address is one of them.
    pub const fn has(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(_) => self.ipv4,
            IpAddr::V6(_) => self.ipv6,
        }
    }
}
