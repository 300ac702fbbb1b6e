//! The address of an instance.

use std::net::IpAddr;

use shunt_model::unusable;

use crate::instances::{instance::Instance, place::Place, skip::SkipReason};

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// That of an address.
    pub(crate) const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

/// An address as it is registered, and the port beside it.
#[derive(Debug, Clone, Copy)]
struct Registered<'a> {
    address: &'a str,
    port: i64,
}

/// Returns the address at which a client at `place` reaches the instance in this family.
///
/// # Errors
///
/// Nowhere, and why.
pub(super) fn reached(
    instance: &Instance,
    place: &Place,
    family: Family,
) -> Result<(IpAddr, u16), SkipReason> {
    let is_remote = instance.datacenter != place.datacenter;
    let best = best(instance, is_remote);
    let address = parsed(best.address)?;
    let (address, port) = if Family::of(address) == family {
        (address, best.port)
    } else {
        of_family(instance, is_remote, family).ok_or(SkipReason::Family(address))?
    };
    let is_own = place.is_node_of(instance);
    match unusable(address) {
        Some(_) if address.is_loopback() && is_own => {}
        Some(_) if address.is_loopback() => return Err(SkipReason::Loopback(address)),
        Some(kind) => return Err(SkipReason::Address { address, kind }),
        None => {}
    }
    match u16::try_from(port) {
        Ok(port) if port > 0 => Ok((address, port)),
        _ => Err(SkipReason::Port(port)),
    }
}

/// Consul's own choice. From another datacenter it is the address `wan`; one that is there and empty
/// stands for the node's, as in Consul.
fn best(instance: &Instance, is_remote: bool) -> Registered<'_> {
    let mut found = Registered {
        address: &instance.address,
        port: instance.port,
    };
    if is_remote && let Some(wan) = instance.tagged_addresses.get("wan") {
        found.address = &wan.address;
        if wan.port != 0 {
            found.port = wan.port;
        }
    }
    if found.address.is_empty() {
        let wan = instance.node_tagged_addresses.get("wan");
        let wan = wan.filter(|address| is_remote && !address.is_empty());
        found.address = wan.unwrap_or(&instance.node_address);
    }
    found
}

/// The service's further address of this family.
fn of_family(instance: &Instance, is_remote: bool, family: Family) -> Option<(IpAddr, i64)> {
    let tag = match (is_remote, family) {
        (false, Family::V4) => "lan_ipv4",
        (false, Family::V6) => "lan_ipv6",
        (true, Family::V4) => "wan_ipv4",
        (true, Family::V6) => "wan_ipv6",
    };
    let tagged = instance.tagged_addresses.get(tag)?;
    let address = parsed(&tagged.address).ok()?;
    let port = if tagged.port == 0 {
        instance.port
    } else {
        tagged.port
    };
    (Family::of(address) == family).then_some((address, port))
}

/// An IPv4 address in the clothes of an IPv6 one is the IPv4 address, as it is to Consul.
fn parsed(text: &str) -> Result<IpAddr, SkipReason> {
    text.parse::<IpAddr>()
        .map(|address| address.to_canonical())
        .map_err(|_| SkipReason::NotAnAddress(text.into()))
}
