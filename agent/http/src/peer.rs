//! Peers of connections.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A client at this address and port.
    Address(SocketAddr),
    /// A process of this user, at a Unix socket; `None`: the kernel does not know the user.
    User(Option<u32>),
}

/// Peers whose places count together. A host has a whole IPv6 /64, so its addresses are no more than one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holder {
    /// This host, by TCP.
    Loopback,
    /// A host.
    V4(Ipv4Addr),
    /// A network /64, by its upper half.
    V6(u64),
    /// A user of a Unix socket.
    User(Option<u32>),
}

impl Peer {
    /// Returns the holder of its places.
    pub fn holder(self) -> Holder {
        let address = match self {
            Self::User(user) => return Holder::User(user),
            Self::Address(address) => address.ip().to_canonical(),
        };
        match address {
            address if address.is_loopback() => Holder::Loopback,
            IpAddr::V4(address) => Holder::V4(address),
            IpAddr::V6(address) => Holder::V6((address.to_bits() >> 64) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_holder() {
        let holder =
            |address: &str| Peer::Address(SocketAddr::new(address.parse().unwrap(), 1)).holder();
        for (one, other, is_same) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("127.0.0.1", "127.9.9.9", true),
            ("127.0.0.1", "::1", true),
            ("2001:db8:0:1::1", "2001:db8:0:1:ffff::1", true),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
        ] {
            assert_eq!(holder(one) == holder(other), is_same, "{one} {other}");
        }
    }
}
