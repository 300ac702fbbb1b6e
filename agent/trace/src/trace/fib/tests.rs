//! Routes by rules, prefixes, metrics and neighbours.

use super::*;
use crate::dump::content::{Neighbour, Node};

fn interface(index: u32, name: &str, mtu: u32) -> Interface {
    Interface {
        index,
        name: name.to_owned(),
        mtu,
        is_ethernet: true,
        is_up: true,
        link_address: Some(LinkAddress([index as u8; 6])),
        addresses: vec![format!("10.0.{index}.1/24").parse().unwrap()],
        forwards_v4: true,
        forwards_v6: false,
    }
}

fn route(table: u32, destination: &str, interface: u32) -> Route {
    Route {
        table,
        destination: destination.parse().unwrap(),
        kind: RouteKind::Unicast,
        metric: 0,
        tos: 0,
        source: None,
        mtu: None,
        hops: vec![Hop {
            interface,
            gateway: None,
            weight: 1,
            is_dead: false,
        }],
        has_encapsulation: false,
    }
}

fn dump() -> Dump {
    let mut dump = Dump::new(Node::of_tests());
    dump.interfaces = vec![
        interface(1, "eth1", 1500),
        interface(2, "eth2", 1400),
        interface(3, "eth3", 9000),
    ];
    dump.routes = vec![
        route(254, "0.0.0.0/0", 1),
        route(254, "10.1.0.0/16", 2),
        route(254, "10.1.7.0/24", 3),
    ];
    dump.rules = vec![
        Rule::of_all(false, 0, RuleAction::Table(255)),
        Rule::of_all(false, 32766, RuleAction::Table(254)),
    ];
    dump
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// By which interface packets go.
fn way(dump: &Dump, source: &str, destination: &str) -> Result<u32, RouteKind> {
    let found = Fib(dump).look_up(1, ip(source), ip(destination))?;
    Ok(found.hop.map_or(0, |hop| hop.interface))
}

#[test]
fn the_longest_prefix_wins_then_the_least_metric() {
    let mut dump = dump();
    for (to, interface) in [("192.0.2.1", 1), ("10.1.8.1", 2), ("10.1.7.1", 3)] {
        assert_eq!(way(&dump, "10.9.9.9", to), Ok(interface), "{to}");
    }
    dump.routes[2].metric = 100;
    dump.routes.push(route(254, "10.1.7.0/24", 1));
    assert_eq!(way(&dump, "10.9.9.9", "10.1.7.1"), Ok(1));
}

#[test]
fn rules_are_asked_in_order_for_what_they_are_about() {
    let mut dump = dump();
    let mut of_source = Rule::of_all(false, 100, RuleAction::Table(7));
    of_source.source = Some("10.9.0.0/16".parse().unwrap());
    dump.rules.push(of_source);
    dump.routes.push(route(7, "0.0.0.0/0", 3));
    assert_eq!(way(&dump, "10.9.9.9", "192.0.2.1"), Ok(3));
    assert_eq!(way(&dump, "10.8.9.9", "192.0.2.1"), Ok(1));
    // A default route of that table is as if it were not there.
    dump.rules[2].suppressed = Some(0);
    assert_eq!(way(&dump, "10.9.9.9", "192.0.2.1"), Ok(1));
    dump.rules[2].action = RuleAction::Prohibit;
    assert_eq!(
        way(&dump, "10.9.9.9", "192.0.2.1"),
        Err(RouteKind::Prohibit)
    );
    dump.rules[2].is_inverted = true;
    assert_eq!(
        way(&dump, "10.8.9.9", "192.0.2.1"),
        Err(RouteKind::Prohibit)
    );
    dump.rules[2].has_more = true;
    dump.rules[2].is_inverted = false;
    assert_eq!(way(&dump, "10.9.9.9", "192.0.2.1"), Ok(1));
}

#[test]
fn a_route_may_say_that_there_is_none() {
    let mut dump = dump();
    dump.routes[2].kind = RouteKind::Blackhole;
    assert_eq!(
        way(&dump, "10.9.9.9", "10.1.7.1"),
        Err(RouteKind::Blackhole)
    );
    dump.routes[2].kind = RouteKind::Throw;
    assert_eq!(way(&dump, "10.9.9.9", "10.1.7.1"), Err(RouteKind::Other));
    dump.routes[2].hops[0].is_dead = true;
    assert_eq!(way(&dump, "10.9.9.9", "10.1.7.1"), Ok(2));
}

#[test]
fn the_answer_is_that_of_the_kernels_helper() {
    let mut dump = dump();
    let question = |length| WayQuestion {
        interface: 1,
        source: ip("192.0.2.1"),
        destination: ip("10.1.8.1"),
        length,
    };
    let ask = |dump: &Dump, length| Fib(dump).ask(&question(length));
    let (answer, way) = ask(&dump, 1400);
    assert_eq!(answer, result::NO_NEIGHBOUR);
    assert_eq!(way.unwrap().interface, 2);
    let (answer, way) = ask(&dump, 1401);
    assert_eq!((answer, way.unwrap().mtu), (result::TOO_LONG, 1400));
    dump.neighbours.push(Neighbour {
        interface: 2,
        address: ip("10.1.8.1"),
        link_address: Some(LinkAddress([9; 6])),
        is_valid: true,
    });
    let (answer, way) = ask(&dump, 100);
    assert_eq!(answer, result::SUCCESS);
    assert_eq!(way.unwrap().link, Some(([2; 6], [9; 6])));
    dump.routes[1].kind = RouteKind::Local;
    assert_eq!(ask(&dump, 100), (result::NOT_FORWARDED, None));
    dump.interfaces[0].forwards_v4 = false;
    assert_eq!(ask(&dump, 100), (result::FORWARDING_DISABLED, None));
}
