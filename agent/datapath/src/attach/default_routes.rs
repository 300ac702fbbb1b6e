//! The interfaces that default routes lead to: those with everybody else behind them.

use std::{collections::BTreeSet, io};

use rtnetlink::packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::{RouteAttribute, RouteHeader, RouteMessage, RouteType},
};

use crate::attach::dump::dump;

/// Their indexes, of both families' main tables.
///
/// # Errors
///
/// If the kernel does not list the routes.
pub(crate) fn interfaces() -> io::Result<BTreeSet<u32>> {
    let mut interfaces = BTreeSet::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut request = RouteMessage::default();
        request.header.address_family = family;
        let found = dump(RouteNetlinkMessage::GetRoute(request), |message| {
            let RouteNetlinkMessage::NewRoute(route) = message else {
                return None;
            };
            let found = of_default(&route);
            (!found.is_empty()).then_some(found)
        })?;
        interfaces.extend(found.items.into_iter().flatten());
    }
    Ok(interfaces)
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
