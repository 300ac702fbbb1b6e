//! Addresses of instances, and instances that are skipped.

use crate::instances::{
    instance::Instance,
    skip::{Skip, SkipReason},
    tests::world::{endpoints, frontend, instance, ip, simply, taking, translated},
};

/// Returns the places to which a frontend of these families sends connections for the instance, or why it does not.
fn reached(instance: Instance, ips: &[&str]) -> Result<Vec<String>, SkipReason> {
    let found = translated(&frontend(""), ips, &[&[instance]]);
    match &found.skips[..] {
        [] => Ok(endpoints(&found).into_iter().map(|(at, _)| at).collect()),
        [Skip { reason, .. }] => {
            assert_eq!(endpoints(&found), []);
            Err(reason.clone())
        }
        more => panic!("{more:?}"),
    }
}

fn v4(instance: Instance) -> Result<Vec<String>, SkipReason> {
    reached(instance, &["10.200.0.1"])
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it is compared with what may fail"
)]
fn at(place: &str) -> Result<Vec<String>, SkipReason> {
    Ok(vec![place.to_owned()])
}

#[test]
fn the_services_address_comes_before_its_nodes() {
    assert_eq!(v4(instance("10.1.1.1")), at("10.1.1.1:8080"));
    assert_eq!(v4(instance("")), at("10.1.0.2:8080"));
    // In the own datacenter `wan` has no effect.
    let web = instance("10.1.1.1").tagged("wan", "198.51.100.1", 99);
    assert_eq!(v4(web), at("10.1.1.1:8080"));
}

#[test]
fn from_another_datacenter_the_address_is_wan() {
    let far = |address| instance(address).in_datacenter("dc2");
    let with_node = |mut instance: Instance| {
        let wan = ("wan".into(), "203.0.113.2".into());
        instance.node_tagged_addresses.extend([wan]);
        instance
    };
    for (found, expected) in [
        (far("10.1.1.1"), "10.1.1.1:8080"),
        (
            far("10.1.1.1").tagged("wan", "198.51.100.1", 0),
            "198.51.100.1:8080",
        ),
        (
            far("10.1.1.1").tagged("wan", "198.51.100.1", 99),
            "198.51.100.1:99",
        ),
        // An empty `wan` stands for the node's.
        (far("10.1.1.1").tagged("wan", "", 99), "10.1.0.2:99"),
        (
            with_node(far("10.1.1.1").tagged("wan", "", 0)),
            "203.0.113.2:8080",
        ),
        (with_node(far("10.1.1.1")), "10.1.1.1:8080"),
        (with_node(far("")), "203.0.113.2:8080"),
        (far(""), "10.1.0.2:8080"),
    ] {
        assert_eq!(v4(found.clone()), at(expected), "{found:?}");
    }
}

#[test]
fn the_family_is_the_frontends() {
    let v6 = |instance| reached(instance, &["fd00::1"]);
    let both = |instance| reached(instance, &["10.200.0.1", "fd00::1"]);
    let dual = || {
        instance("10.1.1.1")
            .tagged("lan_ipv4", "10.1.1.1", 8080)
            .tagged("lan_ipv6", "fd00:1::1", 8086)
            .tagged("wan_ipv6", "2001:db8::1", 0)
    };
    assert_eq!(v4(dual()), at("10.1.1.1:8080"));
    assert_eq!(v6(dual()), at("[fd00:1::1]:8086"));
    assert_eq!(v6(dual().in_datacenter("dc2")), at("[2001:db8::1]:8080"));
    let found = both(dual()).unwrap();
    assert_eq!(found, ["10.1.1.1:8080", "[fd00:1::1]:8086"]);
    // One of two families is enough.
    assert_eq!(both(instance("10.1.1.1")), at("10.1.1.1:8080"));
    let family = |address| Err(SkipReason::Family(ip(address)));
    assert_eq!(v6(instance("10.1.1.1")), family("10.1.1.1"));
    assert_eq!(v4(instance("fd00:1::1")), family("fd00:1::1"));
    // A further address that is none is no help.
    let odd = instance("10.1.1.1").tagged("lan_ipv6", "10.1.1.1", 0);
    assert_eq!(v6(odd), family("10.1.1.1"));
}

#[test]
fn odd_addresses_are_skipped() {
    for text in [
        "db.example",
        "10.1.1.1:80",
        " 10.1.1.1",
        "fe80::1%eth0",
        "10.1.1",
        "010.1.1.1",
    ] {
        let expected = Err(SkipReason::NotAnAddress(text.into()));
        assert_eq!(v4(instance(text)), expected, "{text}");
    }
    for (text, kind) in [
        ("0.0.0.0", "the unspecified"),
        ("224.0.0.1", "a multicast"),
        ("255.255.255.255", "the broadcast"),
    ] {
        let expected = Err(SkipReason::Address {
            address: ip(text),
            kind,
        });
        assert_eq!(v4(instance(text)), expected, "{text}");
        // The node's counts the same.
        let mut nodes = instance("");
        nodes.node_address = text.into();
        assert_eq!(v4(nodes), expected, "{text}");
    }
    for text in ["fe80::1", "ff02::1", "::"] {
        let found = reached(instance(text), &["fd00::1"]);
        assert!(matches!(found, Err(SkipReason::Address { .. })), "{text}");
    }
    // Consul reads it as the IPv4 address that it is.
    assert_eq!(v4(instance("::ffff:10.1.1.1")), at("10.1.1.1:8080"));
}

#[test]
fn loopback_is_of_the_own_node_alone() {
    let loopback = || instance("127.0.0.1");
    let expected = Err(SkipReason::Loopback(ip("127.0.0.1")));
    assert_eq!(v4(loopback()), expected);
    assert_eq!(v4(loopback().on("n1")), at("127.0.0.1:8080"));
    // A node of the same name elsewhere is another one.
    assert_eq!(v4(loopback().on("n1").in_datacenter("dc2")), expected);
}

#[test]
fn odd_ports_are_skipped() {
    for (port, is_one) in [
        (0, false),
        (-1, false),
        (65_536, false),
        (70_000, false),
        (1, true),
        (65_535, true),
    ] {
        let found = v4(instance("10.1.1.1").port(port));
        if is_one {
            assert_eq!(found, at(&format!("10.1.1.1:{port}")));
        } else {
            assert_eq!(found, Err(SkipReason::Port(port)));
        }
    }
}

#[test]
fn a_skip_says_who_and_why_and_nobody_else_is_concerned() {
    let instances = [instance("db.example"), instance("10.1.1.2")];
    let found = translated(&frontend(""), &["10.200.0.1"], &[&instances]);
    assert_eq!(endpoints(&found), [("10.1.1.2:8080".to_owned(), Some(1))]);
    let said: Vec<String> = found.skips.iter().map(ToString::to_string).collect();
    let expected = "instance `db.example` on node `n2`: address: `db.example` is not an IP address";
    assert_eq!(said, [expected]);
}

#[test]
fn two_instances_at_one_place_are_one_backend() {
    let one = || instance("10.1.1.1").weighing(3, 1);
    let other = || Instance {
        id: "other".into(),
        ..instance("10.1.1.1").weighing(7, 2)
    };
    for (instances, expected) in [
        ([one(), other()], Some(7)),
        ([one(), other().checked("c", "critical")], Some(3)),
        (
            [
                one().checked("c", "warning"),
                other().checked("c", "critical"),
            ],
            Some(1),
        ),
        (
            [
                one().checked("c", "critical"),
                other().checked("c", "critical"),
            ],
            None,
        ),
    ] {
        let place = || "10.1.1.1:8080".to_owned();
        let mut turned = instances.clone();
        turned.reverse();
        for instances in [instances, turned] {
            assert_eq!(simply(&frontend(""), &instances), [(place(), expected)]);
        }
    }
    // On this node, if one of them is.
    let pair = [one(), other().on("n1")];
    let found = translated(&frontend(""), &["10.200.0.1"], &[&pair]);
    assert!(found.service.ports[0].endpoints[0].local);
}

#[test]
fn local_is_what_runs_on_this_node_in_this_datacenter() {
    for (found, local) in [
        (instance("10.1.1.1").on("n1"), true),
        (instance("10.1.1.1").on("N1"), true),
        (instance("10.1.1.1"), false),
        (instance("10.1.1.1").on("n1").in_datacenter("dc2"), false),
    ] {
        let translated = translated(&frontend(""), &["10.200.0.1"], &[&[found]]);
        let endpoint = &translated.service.ports[0].endpoints[0];
        assert_eq!((endpoint.local, endpoint.scopes.local), (local, local));
    }
}

#[test]
fn the_order_of_instances_does_not_matter() {
    let mut instances = Vec::from(["10.1.1.3", "10.1.1.10", "10.1.1.2"].map(instance));
    let expected = ["10.1.1.2:8080", "10.1.1.3:8080", "10.1.1.10:8080"];
    for _ in 0..3 {
        instances.rotate_left(1);
        assert_eq!(taking(&frontend(""), &[&instances]), expected);
    }
}
