//! The configuration: its valid contents, and each way in which it can be wrong.

use shunt_model::{Protocol, Selection};

use crate::instances::{
    configuration::parse::parse,
    frontend::Vip,
    tests::world::ip,
    tier::{Datacenter, Export, Failover, Tier, Via},
};

#[test]
fn everything_that_can_be_said_is_read() {
    let text = r#"
        [[frontend]]
        service = "web"
        name = "tls"
        vip = ["10.200.0.1", "fd00::1"]
        port = 443
        protocol = "udp"
        tags = ["Prod", "!canary"]
        service_meta = { version = "2" }
        node_meta = { rack = "r1" }
        only_passing = true
        ignore_checks = ["noisy"]
        connect = true
        prefer_local = true
        affinity = "3h"
        selection = "maglev"
        masquerade = true

        [[frontend]]
        service = "a/b ü%"
        vip_from_range = "10.200.1.9/24"
        port = 1

        [[frontend]]
        service = "db"
        vip_from_tag = "consul-virtual"
        connect = true
    "#;
    let frontends = parse(text).unwrap();
    let [web, odd, db] = &frontends[..] else {
        panic!("{frontends:#?}")
    };
    assert_eq!(web.id.to_string(), "consul/web:tls");
    assert_eq!(web.vip, Vip::Fixed(vec![ip("10.200.0.1"), ip("fd00::1")]));
    assert_eq!((web.port, web.protocol), (Some(443), Protocol::Udp));
    assert_eq!(web.affinity, 3 * 3600);
    assert_eq!(web.selection, Some(Selection::Maglev));
    assert_eq!((web.masquerade, odd.masquerade), (Some(true), None));
    assert_eq!(web.configured_tiers(), [Tier::of("web", Datacenter::Own)]);
    assert!(web.has_fixed_tiers() && web.export.is_none());
    assert!(web.only_passing && web.connect && web.prefer_local);
    assert_eq!(odd.id.to_string(), "consul/a%2Fb%20ü%25");
    assert_eq!(&*odd.service, "a/b ü%");
    assert_eq!(odd.vip, Vip::Claimed("10.200.1.0/24".parse().unwrap()));
    assert_eq!((odd.protocol, odd.affinity), (Protocol::Tcp, 0));
    assert_eq!(db.vip, Vip::Tagged("consul-virtual".into()));
    assert_eq!(db.port, None);
    assert_eq!(parse("").unwrap(), []);
}

fn frontend(lines: &str) -> String {
    format!("[[frontend]]\nservice = \"web\"\n{lines}")
}

fn at(lines: &str) -> String {
    frontend(&format!("vip = \"10.200.0.1\"\nport = 80\n{lines}"))
}

/// Checks a text, the line of it that is wrong, and the error's text.
#[track_caller]
fn is_refused((text, line, said): (String, usize, &str)) {
    let error = parse(&text).unwrap_err();
    assert_eq!(error.line, line, "{error}: {text}");
    assert!(error.what.contains(said), "{error}: {text}");
}

#[test]
fn a_wrong_address_is_said_with_its_line() {
    for case in [
        ("[[frontend]\n".to_owned(), 1, ""),
        ("nonsense = 1\n".to_owned(), 1, "unknown field `nonsense`"),
        (at("tag = [\"a\"]"), 5, "unknown field `tag`"),
        (
            "[[frontend]]\nport = 1\n".to_owned(),
            1,
            "missing field `service`",
        ),
        (
            frontend("port = 80"),
            1,
            "give one of `vip`, `vip_from_tag` and `vip_from_range`",
        ),
        (at("vip_from_tag = \"virtual\""), 1, "only one"),
        (frontend("vip = \"10.200.0.1\""), 1, "port: it is missing"),
        (
            frontend("vip_from_range = \"10.0.0.0/8\""),
            1,
            "port: it is missing",
        ),
        (
            frontend("port = 80\nvip = \"10.200.0\""),
            4,
            "vip: `10.200.0` is not an IP address",
        ),
        (frontend("port = 80\nvip = []"), 4, "vip: the list is empty"),
        (
            frontend("port = 80\nvip = 7"),
            4,
            "an address as text, or a list",
        ),
        (
            frontend("port = 80\nvip = [\"127.0.0.1\"]"),
            4,
            "vip: 127.0.0.1 is a loopback",
        ),
        (
            frontend("port = 80\nvip = \"::ffff:10.0.0.1\""),
            4,
            "write it as 10.0.0.1",
        ),
        (
            frontend("port = 80\nvip = [\"10.0.0.1\", \"10.0.0.1\"]"),
            4,
            "listed twice",
        ),
        (
            frontend("port = 80\nvip_from_range = \"10.0.0.1\""),
            4,
            "is not a range",
        ),
        (
            frontend("port = 80\nvip_from_range = \"224.0.0.0/8\""),
            4,
            "a multicast",
        ),
        (
            frontend("vip_from_tag = \"\""),
            3,
            "vip_from_tag: it is empty",
        ),
        (
            frontend("vip_from_tag = \"consul-virtual\""),
            3,
            "set `connect = true`",
        ),
        (
            frontend("vip = \"10.0.0.1\"\nport = 0"),
            4,
            "port: 0 is no port",
        ),
        (
            frontend("vip = \"10.0.0.1\"\nport = 65536"),
            4,
            "port: 65536 is no port",
        ),
        (
            frontend("vip = \"10.0.0.1\"\nport = \"80\""),
            4,
            "expected i64",
        ),
    ] {
        is_refused(case);
    }
}

#[test]
fn other_wrong_values_are_said_with_their_lines() {
    let twice = format!("{}\n{}", at(""), at(""));
    let same = format!("{}\n{}", at(""), at("name = \"b\""));
    for case in [
        (at("protocol = \"icmp\""), 5, "protocol: `icmp` is none of"),
        (
            at("selection = \"random\""),
            5,
            "selection: `random` is neither",
        ),
        (at("masquerade = \"yes\""), 5, "expected a boolean"),
        (at("affinity = \"3\""), 5, "affinity: `3` is not a duration"),
        (at("affinity = \"1500ms\""), 5, "parts of a second"),
        (at("affinity = \"200years\""), 5, "is too long"),
        (at("tags = [\"a\", \"\"]"), 5, "tags: an empty tag"),
        (at("tags = [\"!\"]"), 5, "tags: an empty tag"),
        (at("name = \"\""), 5, "name: it is empty"),
        (at("service_meta = { a = 1 }"), 5, ""),
        (
            "[[frontend]]\nservice = \"\"\nport = 1\nvip = \"10.0.0.1\"".into(),
            2,
            "service: it is empty",
        ),
        (
            twice,
            6,
            "line 1 has a frontend of this service and name already",
        ),
        (same, 6, "is the frontend of line 1 already"),
    ] {
        is_refused(case);
    }
}

#[test]
fn other_datacenters_are_tiers_in_their_order() {
    let read = |lines: &str| parse(&at(lines)).unwrap().remove(0);
    let mut named = read("failover = [\"dc2\", \"dc1\", \"dc3\"]\nvia = \"gateway\"");
    assert!(named.has_fixed_tiers());
    assert_eq!(named.via, Via::Gateway);
    named.settle_in("dc1");
    let other = |name: &str| Tier::of("web", Datacenter::Other(name.into()));
    let own = Tier::of("web", Datacenter::Own);
    let expected = [own.clone(), other("dc2"), other("dc3")];
    assert_eq!(named.configured_tiers(), expected);
    let nearest = read("failover = [\"dc4\", \"dc3\"]\nfailover_nearest = 2");
    assert!(!nearest.has_fixed_tiers());
    let near = ["dc3", "dc2", "dc5"].map(Into::into);
    let expected = [own, other("dc3"), other("dc2"), other("dc4")];
    assert_eq!(nearest.tiers_with(&near), expected);
    let resolved = read("failover = \"resolver\"\nvia = \"mesh\"\nsni = true");
    assert_eq!(
        (resolved.failover, resolved.via),
        (Failover::Resolver, Via::Mesh)
    );
    assert_eq!(read("export = true").export, Some(Export::AsIs));
    assert_eq!(read("export = false").export, None);
    let at = Export::At("192.0.2.1:443".parse().unwrap());
    assert_eq!(read("export = \"192.0.2.1:443\"").export, Some(at));
}

#[test]
fn what_is_wrong_with_other_datacenters_is_said_with_its_line() {
    let failover = |lines: &str| at(&format!("failover = [\"dc2\"]\n{lines}"));
    for case in [
        (at("failover = \"dc2\""), 5, "`dc2` is not `resolver`"),
        (at("failover = []"), 5, "the list is empty"),
        (
            at("failover = [\"DC2\"]"),
            5,
            "`DC2` is no name of a datacenter",
        ),
        (at("failover = [\"dc2\", \"dc2\"]"), 5, "listed twice"),
        (at("failover = 2"), 5, "failover: neither"),
        (at("failover_nearest = 0"), 5, "0 is not among 1-16"),
        (
            at("failover = \"resolver\"\nfailover_nearest = 1"),
            6,
            "the resolver says",
        ),
        (at("via = \"gateway\""), 5, "there are none"),
        (failover("via = \"tunnel\""), 6, "`tunnel` is none of"),
        (
            failover("via = \"mesh\""),
            6,
            "would hang: set `sni = true`",
        ),
        (failover("sni = true"), 1, "only mesh gateways need it"),
        (
            failover("via = \"mesh\"\nsni = true\nprotocol = \"udp\""),
            1,
            "TLS over TCP alone",
        ),
        (failover("export = true"), 6, "use two frontends"),
        (
            at("export = \"gate.example:443\""),
            5,
            "is not an address and a port",
        ),
        (at("export = \"192.0.2.1:0\""), 5, "has no port"),
        (at("export = \"127.0.0.1:80\""), 5, "loopback"),
        (at("export = 7"), 5, "export: neither"),
        (
            frontend("vip_from_tag = \"virtual\"\nexport = true"),
            4,
            "give the frontend a `vip`",
        ),
    ] {
        is_refused(case);
    }
}
