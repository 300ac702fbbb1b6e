//! The configuration: what it may say, and each way in which it can be wrong.

use shunt_model::{Protocol, Selection};

use crate::source::instances::{
    configuration::parse::parse,
    frontend::{Datacenter, Vip},
    tests::world::ip,
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

        [[frontend]]
        service = "a/b ü%"
        vip_from_range = "10.200.1.9/24"
        port = 1

        [[frontend]]
        service = "db"
        vip_from_tag = "consul-virtual"
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
    assert_eq!(web.tiers, [Datacenter::Own]);
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

/// A text, and the line of it that is wrong, and what is said of that.
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
