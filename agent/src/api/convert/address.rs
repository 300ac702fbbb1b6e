//! Addresses, as text and as values.

use std::net::{IpAddr, Ipv4Addr};

use crate::api::{EventError, Fault, wire::Text};

/// The address that `text` says, if a frontend, a backend or a node can have it.
///
/// Refused is only what can never work: an address that names no single host (unspecified,
/// multicast, broadcast), one that never leaves its host (loopback), and an IPv4 address in the
/// clothes of an IPv6 one, which no IPv6 packet carries.
pub(super) fn address(text: &str) -> Result<IpAddr, Fault> {
    let address = text
        .parse::<IpAddr>()
        .map_err(|_| Fault::NotAnAddress(text.to_owned()))?;
    if let IpAddr::V6(v6) = address
        && let Some(v4) = v6.to_ipv4_mapped()
    {
        return Err(Fault::MappedAddress {
            found: address,
            instead: v4.into(),
        });
    }
    let kind = if address.is_unspecified() {
        "the unspecified"
    } else if address.is_loopback() {
        "a loopback"
    } else if address.is_multicast() {
        "a multicast"
    } else if address == Ipv4Addr::BROADCAST {
        "the broadcast"
    } else {
        return Ok(address);
    };
    Err(Fault::UnusableAddress { address, kind })
}

/// The addresses of a list, in its order.
pub(super) fn addresses(list: &[Text<'_>]) -> impl Iterator<Item = Result<IpAddr, EventError>> {
    list.iter().enumerate().map(|(index, text)| {
        address(text).map_err(|fault| EventError::new(fault).within(format_args!("[{index}]")))
    })
}

/// The family's name.
pub(super) const fn family(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    }
}
