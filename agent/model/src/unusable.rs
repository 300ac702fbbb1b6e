//! Addresses that no service, backend or node can be reached at.

use std::net::{IpAddr, Ipv4Addr};

/// Returns the kind of `address`, with its article, if no other host can reach it: it names no
/// single host (unspecified, multicast, broadcast; IPv6 link-local, which each link may have anew),
/// or never leaves its host (loopback).
///
/// IPv4 link-local addresses work, and are in use: for DNS caches on nodes, for example.
pub const fn unusable(address: IpAddr) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("the unspecified");
    }
    if address.is_loopback() {
        return Some("a loopback");
    }
    if address.is_multicast() {
        return Some("a multicast");
    }
    match address {
        IpAddr::V4(v4) if v4.to_bits() == Ipv4Addr::BROADCAST.to_bits() => Some("the broadcast"),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some("a link-local"),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}
