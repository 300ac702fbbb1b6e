//! The interfaces that default routes lead to: those with everybody else behind them.

use std::{
    collections::BTreeSet,
    io::{self, ErrorKind},
};

use rtnetlink::packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType},
};

use crate::netlink::dump::{Found, dump_strictly};

/// Their indexes, of both families' main tables.
///
/// # Errors
///
/// If the kernel does not list the routes.
pub(crate) fn interfaces() -> io::Result<BTreeSet<u32>> {
    Ok(&interfaces_v4()? | &interfaces_v6()?)
}

/// Returns those of IPv4's main table. The kernel lists the routes in the order of their destinations, so that none is a
/// default route behind the first one with an address (`fib_table_dump` in net/ipv4/fib_trie.c).
///
/// # Errors
///
/// If the kernel does not list the routes.
pub(crate) fn interfaces_v4() -> io::Result<BTreeSet<u32>> {
    let has_address = |route: &RouteMessage| {
        route.attributes.iter().any(|attribute| {
            matches!(attribute, RouteAttribute::Destination(RouteAddress::Inet(address))
                if !address.is_unspecified())
        })
    };
    list(AddressFamily::Inet, |_| true, |route| has_address(route))
}

/// Returns those of IPv6's main table. The kernel lists its default routes last.
///
/// # Errors
///
/// If the kernel does not list the routes.
pub(crate) fn interfaces_v6() -> io::Result<BTreeSet<u32>> {
    list(AddressFamily::Inet6, is_of_default, |_| false)
}

/// Returns whether a message with its header is about a default route.
pub(crate) fn is_of_default(message: &[u8]) -> bool {
    // `rtm_dst_len` of `struct rtmsg` (linux/rtnetlink.h).
    message.get(17) == Some(&0)
}

fn list(
    family: AddressFamily,
    is_wanted: impl Fn(&[u8]) -> bool,
    is_behind: impl Fn(&RouteMessage) -> bool,
) -> io::Result<BTreeSet<u32>> {
    let mut request = RouteMessage::default();
    request.header.address_family = family;
    request.header.table = RouteHeader::RT_TABLE_MAIN;
    request.header.kind = RouteType::Unicast;
    let request = RouteNetlinkMessage::GetRoute(request);
    let found = dump_strictly(request, is_wanted, |message| {
        let RouteNetlinkMessage::NewRoute(route) = message else {
            return Found::Nothing;
        };
        if is_behind(&route) {
            return Found::Behind;
        }
        let found = of_default(&route);
        if found.is_empty() {
            Found::Nothing
        } else {
            Found::Item(found)
        }
    });
    match found {
        Ok(found) => Ok(found.items.into_iter().flatten().collect()),
        // There has never been a route in this table.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

/// The interfaces of the route, if it is a default route.
fn of_default(route: &RouteMessage) -> Vec<u32> {
    let RouteHeader {
        destination_prefix_length,
        table,
        kind,
        ..
    } = route.header;
    if destination_prefix_length != 0
        || table != RouteHeader::RT_TABLE_MAIN
        || kind != RouteType::Unicast
    {
        return Vec::new();
    }
    let interfaces = route
        .attributes
        .iter()
        .flat_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => vec![*index],
            RouteAttribute::MultiPath(hops) => hops.iter().map(|hop| hop.interface_index).collect(),
            _ => Vec::new(),
        });
    interfaces.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(length: u8, table: u8, kind: RouteType) -> RouteMessage {
        let mut route = RouteMessage::default();
        route.header.destination_prefix_length = length;
        route.header.table = table;
        route.header.kind = kind;
        route.attributes.push(RouteAttribute::Oif(7));
        route
    }

    #[test]
    fn only_default_routes_of_the_main_table_say_which_interfaces_are_uplinks() {
        const MAIN: u8 = RouteHeader::RT_TABLE_MAIN;
        for (route, interfaces) in [
            (route(0, MAIN, RouteType::Unicast), &[7][..]),
            (route(24, MAIN, RouteType::Unicast), &[]),
            (route(0, 255, RouteType::Unicast), &[]),
            (route(0, MAIN, RouteType::BlackHole), &[]),
        ] {
            assert_eq!(of_default(&route), interfaces, "{route:?}");
        }
    }

    #[test]
    fn the_kernel_lists_routes() {
        interfaces().unwrap();
    }
}
