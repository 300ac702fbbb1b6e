//! The outcome of a call in the kernel, and a check that it may be so.

use std::net::{IpAddr, SocketAddr};

use shunt_programs::{Action, Call, Remembered, Socket};

use super::{network::Network, operations::Kind, twin::Clients};

/// Outcome of a call in the kernel.
#[derive(Debug)]
pub(super) struct Seen {
    pub error: Option<i32>,
    /// Destination of its packet, or the address that the process gets.
    pub address: Address,
    pub remembered: Remembered,
    pub clients: Clients,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Address {
    None,
    Known(SocketAddr),
    /// Another call shows it.
    Unseen,
}

impl Address {
    pub(super) fn of(address: Option<SocketAddr>) -> Self {
        address.map_or(Self::None, Self::Known)
    }

    pub(super) const fn known(self) -> Option<SocketAddr> {
        match self {
            Self::Known(address) => Some(address),
            Self::None | Self::Unseen => None,
        }
    }
}

impl Seen {
    /// Returns whether this came of a call with this result.
    pub(super) fn agrees(
        &self,
        call: &Call,
        network: &Network,
        result: Result<SocketAddr, i32>,
    ) -> bool {
        let to = match result {
            Ok(to) => to,
            Err(error) => return self.error == Some(error) && self.address == Address::None,
        };
        let told = self.address.known().map(canonical);
        match call.action {
            Action::Receive | Action::NamePeer => {
                self.error.is_none() && self.address == Address::Known(to)
            }
            Action::Bind => self.error.is_none_or(|error| {
                // There is no such address, or the socket has one.
                matches!(error, libc::EADDRNOTAVAIL | libc::EINVAL)
            }),
            Action::Connect | Action::Send => {
                let to = canonical(to);
                // That is the host itself, by one of its addresses, of one family or the other.
                let is_itself = |ip: IpAddr| ip.is_loopback() || network.own.has(ip);
                let is_there = told.is_some_and(|told| {
                    told == to
                        || to.ip().is_unspecified()
                            && told.port() == to.port()
                            && is_itself(told.ip())
                });
                let may_fail = !is_reached(network, &call.socket, to.ip());
                let is_unseen = self.address == Address::Unseen;
                match self.error {
                    None => is_there || told.is_none() && may_fail || is_unseen,
                    Some(error) => may_fail && is_of_kernel(error),
                }
            }
        }
    }
}

/// Returns whether the kernel itself returns it, whatever programs do.
fn is_of_kernel(error: i32) -> bool {
    matches!(
        error,
        libc::EINVAL
            | libc::EACCES
            | libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::EAFNOSUPPORT
            | libc::EADDRNOTAVAIL
            | libc::ECONNREFUSED
    )
}

/// Returns whether a packet of the socket to this address leaves its namespace in any case.
fn is_reached(network: &Network, socket: &Socket, ip: IpAddr) -> bool {
    let bound = socket.bound.to_canonical();
    let is_any = socket.bound.is_unspecified() || bound.is_unspecified() && ip.is_ipv4();
    let fits = is_any || bound.is_ipv4() == ip.is_ipv4() && network.own.has(bound);
    fits && is_elsewhere(network, ip)
}

/// Returns whether the address is one of a host elsewhere.
pub(super) fn is_elsewhere(network: &Network, ip: IpAddr) -> bool {
    let is_odd = match ip {
        IpAddr::V4(ip) => ip.is_broadcast() || ip.octets()[0] == 0,
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let is_nobodys = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast();
    !is_odd && !is_nobodys && !network.own.has(ip)
}

/// The address as a socket of this kind has it.
pub(super) fn formed(kind: Kind, at: SocketAddr) -> SocketAddr {
    match at.ip() {
        IpAddr::V4(ip) if kind.is_ipv6 => SocketAddr::new(ip.to_ipv6_mapped().into(), at.port()),
        _ => at,
    }
}

/// The address as packets have it.
pub(super) fn canonical(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(at.ip().to_canonical(), at.port())
}

/// Returns the result of a call, in a word.
pub(super) fn outcome(call: &Call, result: Result<SocketAddr, i32>) -> &'static str {
    match result {
        Ok(to) if canonical(to) == canonical(call.to) => "untouched",
        Ok(_) => "translated",
        Err(libc::ECONNREFUSED) => "refused",
        Err(libc::EPERM) => "dropped",
        Err(libc::EINVAL) => "invalid",
        Err(libc::EADDRINUSE) => "in use",
        Err(_) => "another error",
    }
}
