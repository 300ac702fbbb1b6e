//! Addresses, as text and as values.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::{IpNet, Ipv4Net};

use crate::{
    error::{EventError, Fault},
    unchecked::text::Text,
    unusable::unusable,
};

/// The address in `text`, if a frontend or a backend can have it.
///
/// Refused is only what can never work: see [`unusable`], and an IPv4 address in the clothes of an
/// IPv6 one, which no IPv6 packet carries.
pub(super) fn address(text: &str) -> Result<IpAddr, Fault> {
    let address = any_address(text)?;
    match unusable(address) {
        Some(kind) => Err(Fault::UnusableAddress { address, kind }),
        None => Ok(address),
    }
}

/// The address in `text`, any at all.
fn any_address(text: &str) -> Result<IpAddr, Fault> {
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
    Ok(address)
}

/// The range in `text`, without the bits that it leaves open.
pub(super) fn range(text: &str) -> Result<IpNet, Fault> {
    let range: IpNet = text
        .parse()
        .map_err(|_| Fault::NotARange(text.to_owned()))?;
    // `::ffff:0:0/96`, or a part of it: as IPv6 it fits no packet, as IPv4 it was written wrong.
    if let IpNet::V6(v6) = range
        && let (Some(v4), Some(length)) = (
            v6.network().to_ipv4_mapped(),
            v6.prefix_len().checked_sub(96),
        )
        && let Ok(instead) = Ipv4Net::new(v4, length)
    {
        return Err(Fault::MappedRange {
            found: range,
            instead,
        });
    }
    Ok(range.trunc())
}

/// The addresses of nodes in the field `field`, the first of which is `field[first]`.
///
/// The addresses of a node's interfaces are listed as they are: one address that cannot be used takes nothing
/// away from the others. The renderer leaves it out.
pub(super) fn node_set(
    list: &[Text<'_>],
    field: &str,
    first: usize,
) -> Result<BTreeSet<IpAddr>, EventError> {
    list.iter()
        .enumerate()
        .map(|(index, text)| {
            any_address(text).map_err(|fault| {
                EventError::new(fault).within(format_args!("{field}[{}]", first + index))
            })
        })
        .collect()
}

/// The ranges of services' addresses in the field `field`, the first of which is `field[first]`.
///
/// Packets for an address in them that is no service's are dropped, so a range of all addresses is refused.
pub(super) fn service_cidrs(
    list: &[Text<'_>],
    field: &str,
    first: usize,
) -> Result<BTreeSet<IpNet>, EventError> {
    let service_cidr = |text| match range(text)? {
        range if range.prefix_len() == 0 => Err(Fault::EveryAddress(range)),
        range => Ok(range),
    };
    list.iter()
        .enumerate()
        .map(|(index, text)| {
            service_cidr(text).map_err(|fault| {
                EventError::new(fault).within(format_args!("{field}[{}]", first + index))
            })
        })
        .collect()
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
