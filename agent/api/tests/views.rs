//! Views of an agent: the same after their way through a message, and one form in JSON.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    num::NonZeroU16,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use shunt_api::{
    proto,
    view::{
        self, Backend, Conflict, Connection, ConnectionState, Consul, Difference, FailedOver,
        Federation, FlowEvent, FlowKind, FlowPacket, Frontend, FrontendDifference, FrontendKey,
        Gateway, HeldRemoval, Interface, InterfaceState, LastError, Listener, LiveOverride,
        LocalApi, MaglevTables, Malformed, MonitorUse, ProtocolNumber, ServiceCounters,
        ServiceTraffic, SocketLb, SocketLbMode, Source, SourceNode, Split, SplitBackend,
        SplitTarget, StaleSockets, StaleWatch, Status, TableUse, TakeOver, Unlocated,
        UnreadableObject, Untranslated, Uplink, UplinkState,
    },
};
use shunt_model::{
    Forwarding, Masquerade, Override, Protocol, Selection, ServiceId, SplitMode, TrafficPolicy,
};

fn key(address: &str, protocol: u8) -> FrontendKey {
    FrontendKey {
        address: address.parse().unwrap(),
        port: 80,
        protocol: ProtocolNumber(protocol),
    }
}

fn source() -> Source {
    Source {
        name: "Kubernetes at https://192.0.2.1:6443/".into(),
        connected: false,
        since_seconds_ago: 12,
        trouble: Some("no answer within 30s".into()),
        synced: true,
        last_event_seconds_ago: Some(13),
        last_relist_seconds_ago: None,
        relists: 14,
        services: 15,
        endpoint_slices: 16,
        endpoints: 17,
        nodes: 18,
        service_cidrs: vec!["10.96.0.0/16".into()],
        pending: 19,
        lag_milliseconds: Some(20),
        node: SourceNode {
            name: "node-1".into(),
            found: true,
            zone: Some("a".into()),
            addresses: vec!["192.168.16.10".parse().unwrap()],
        },
        untranslated: vec![Untranslated {
            service: "default/a".into(),
            reasons: vec!["no".into()],
        }],
        unreadable: 21,
        first_unreadable: vec![UnreadableObject {
            object: "EndpointSlices: default/a".into(),
            reason: "ports: no".into(),
        }],
    }
}

fn uplinks() -> Vec<Uplink> {
    vec![
        Uplink {
            name: "eth0".to_owned(),
            state: UplinkState::Native { index: 7 },
        },
        Uplink {
            name: "eth1".to_owned(),
            state: UplinkState::Generic {
                index: 8,
                reason: Some("not in the driver".to_owned()),
            },
        },
        Uplink {
            name: "eth2".to_owned(),
            state: UplinkState::Failed {
                reason: "no".to_owned(),
            },
        },
    ]
}

const WATCHED: MonitorUse = MonitorUse {
    watchers: 61,
    told: 62,
    lost: 63,
};

fn status() -> Status {
    let interface = |name: &str, state| Interface {
        name: name.into(),
        pattern: (name == "eth0").then(|| "eth*".to_owned()),
        state,
    };
    Status {
        version: "1.2.3".into(),
        uptime_seconds: 60,
        pin_dir: None,
        synced: true,
        held: 1,
        applied: 2,
        refused: 3,
        last_error: Some(LastError {
            text: "line 3: no".into(),
            seconds_ago: 4,
        }),
        node_ips: ["192.168.16.10", "fd00::1"]
            .map(|ip| ip.parse().unwrap())
            .into(),
        own_node_ips: vec!["fd00::1".parse().unwrap()],
        interfaces: vec![
            interface("eth0", InterfaceState::Attached { index: 7 }),
            interface("eth1", InterfaceState::Absent { seconds: 12 }),
            interface("eth3", InterfaceState::Attaching),
            interface("tun0", InterfaceState::Loading),
            interface(
                "eth2",
                InterfaceState::Failed {
                    reason: "no".into(),
                },
            ),
        ],
        conflicts: vec![Conflict {
            frontend: key("10.96.0.1", 6),
            holder: "default/a".into(),
            waiting: "default/b".into(),
        }],
        differences: vec![FrontendDifference {
            frontend: key("fd00::96", 99),
            difference: Difference::Unknown,
        }],
        untranslated: 5,
        tables: vec![TableUse {
            name: "slots_v4".into(),
            used: 6,
            retired: 13,
            capacity: 7,
        }],
        maglev: MaglevTables {
            tables: 22,
            slots: 23,
            without_room: vec!["default/web:http".into()],
        },
        unlocated: vec![Unlocated {
            service: "default/web".into(),
            address: "10.1.2.3".parse().unwrap(),
        }],
        counters: [("connection".to_owned(), 8)].into(),
        conntrack_early_drop: 9,
        socket_lb: SocketLb {
            mode: SocketLbMode::Host,
            cgroup: Some("/sys/fs/cgroup".into()),
            root: true,
            hooks: vec!["connect4".into()],
            problem: Some("no".into()),
        },
        stale_sockets: StaleSockets {
            destroyed_udp: 10,
            destroyed_tcp: 11,
            moved_udp: 12,
            trouble: Some("the kernel does not list sockets".to_owned()),
        },
        source: Some(source()),
        listeners: vec![Listener {
            name: "health".to_owned(),
            address: "0.0.0.0:10256".to_owned(),
            problem: Some("taken".to_owned()),
        }],
        take_over: Some(TakeOver {
            active: true,
            mode: "auto".to_owned(),
            reason: "kube-proxy's rules are on this host".to_owned(),
            rules: Some("nftables (ip kube-proxy)".to_owned()),
            connections: Some(21),
        }),
        uplinks: uplinks(),
        consul: Some(consul()),
        local_api: Some(local_api()),
        host: vec!["this host does not forward".into()],
        socket_recreated: 41,
        overrides: overrides(),
        held_removal: Some(held_removal()),
        monitor: WATCHED,
    }
}

fn held_removal() -> HeldRemoval {
    HeldRemoval {
        number: 46,
        event: "line 3: Resync".into(),
        removed: 42,
        frontends: 43,
        waiting: 44,
        seconds: 45,
    }
}

fn overrides() -> Vec<LiveOverride> {
    let ip = "10.1.1.3".parse().unwrap();
    let port = NonZeroU16::new(8080);
    let changes = [
        Override::Drain { ip, port },
        Override::DrainNode {
            node: "node-2".into(),
        },
        Override::Weight {
            service: ServiceId::new("default", "web"),
            ip,
            port: None,
            weight: 7,
        },
    ];
    let live = changes
        .into_iter()
        .zip(51..)
        .map(|(change, endpoints)| LiveOverride {
            change: view::Override(change),
            ends_in_seconds: Some(endpoints + 10),
            endpoints,
        });
    live.collect()
}

fn untranslated() -> Vec<Untranslated> {
    vec![Untranslated {
        service: "consul/web".into(),
        reasons: vec!["no".into()],
    }]
}

fn consul() -> Consul {
    Consul {
        address: "http://127.0.0.1:8500".into(),
        datacenter: Some("dc1".into()),
        node: None,
        hints: true,
        watches: 31,
        stale: vec![StaleWatch {
            service: "web".into(),
            since_seconds_ago: 32,
            reason: "no leader".into(),
        }],
        synced: true,
        last_change_seconds_ago: Some(33),
        frontends: 34,
        instances: 35,
        pending: 36,
        lag_milliseconds: Some(37),
        missing_rights: vec!["node:read".into()],
        skipped: untranslated(),
        failed_over: vec![FailedOver {
            service: "consul/web".into(),
            datacenter: "dc2".into(),
        }],
        gateways: vec![Gateway {
            datacenter: "dc2".into(),
            node: "g1".into(),
            id: "gateway".into(),
            usable: true,
            origin: "catalog".into(),
        }],
    }
}

fn local_api() -> LocalApi {
    LocalApi {
        address: "127.0.0.1:8500".into(),
        services: 41,
        passing: 42,
        warning: 43,
        critical: 44,
        waiting: 45,
        state: "/var/lib/shunt/services.json".into(),
        writes: 46,
        failed_writes: 47,
        troubles: vec!["no".into()],
        frontends: 48,
        pending: 49,
        untranslated: untranslated(),
        federation: Some(Federation {
            datacenter: "dc2".into(),
            primary: "dc1".into(),
            up_to_date: false,
            since_seconds_ago: 50,
            trouble: Some("away".into()),
            index: 51,
            failures: 52,
            gateways: Vec::new(),
            failed_over: Vec::new(),
        }),
    }
}

#[test]
fn a_status_is_the_same_after_its_message_and_has_one_form_in_json() {
    let message = proto::StatusResponse::from(status());
    assert_eq!(Status::try_from(message), Ok(status()));
    let source = json!({
        "name": "Kubernetes at https://192.0.2.1:6443/", "connected": false,
        "since_seconds_ago": 12, "trouble": "no answer within 30s", "synced": true,
        "last_event_seconds_ago": 13, "last_relist_seconds_ago": null, "relists": 14,
        "services": 15, "endpoint_slices": 16, "endpoints": 17, "nodes": 18,
        "service_cidrs": ["10.96.0.0/16"], "pending": 19, "lag_milliseconds": 20,
        "node": {
            "name": "node-1", "found": true, "zone": "a", "addresses": ["192.168.16.10"],
        },
        "untranslated": [{ "service": "default/a", "reasons": ["no"] }],
        "unreadable": 21,
        "first_unreadable": [{ "object": "EndpointSlices: default/a", "reason": "ports: no" }],
    });
    let consul = json!({
        "address": "http://127.0.0.1:8500", "datacenter": "dc1", "node": null, "hints": true,
        "watches": 31,
        "stale": [{ "service": "web", "since_seconds_ago": 32, "reason": "no leader" }],
        "synced": true, "last_change_seconds_ago": 33, "frontends": 34, "instances": 35,
        "pending": 36, "lag_milliseconds": 37, "missing_rights": ["node:read"],
        "skipped": [{ "service": "consul/web", "reasons": ["no"] }],
        "failed_over": [{ "service": "consul/web", "datacenter": "dc2" }],
        "gateways": [{
            "datacenter": "dc2", "node": "g1", "id": "gateway", "usable": true, "origin": "catalog",
        }],
    });
    let local_api = json!({
        "address": "127.0.0.1:8500", "services": 41, "passing": 42, "warning": 43,
        "critical": 44, "waiting": 45, "state": "/var/lib/shunt/services.json", "writes": 46,
        "failed_writes": 47, "troubles": ["no"], "frontends": 48, "pending": 49,
        "untranslated": [{ "service": "consul/web", "reasons": ["no"] }],
        "federation": {
            "datacenter": "dc2", "primary": "dc1", "up_to_date": false, "since_seconds_ago": 50,
            "trouble": "away", "index": 51, "failures": 52, "gateways": [], "failed_over": [],
        },
    });
    let expected = json!({
        "version": "1.2.3", "uptime_seconds": 60, "pin_dir": null, "synced": true, "held": 1,
        "applied": 2, "refused": 3,
        "last_error": { "text": "line 3: no", "seconds_ago": 4 },
        "node_ips": ["192.168.16.10", "fd00::1"], "own_node_ips": ["fd00::1"],
        "interfaces": [
            { "name": "eth0", "pattern": "eth*", "state": "attached", "index": 7 },
            { "name": "eth1", "pattern": null, "state": "absent", "seconds": 12 },
            { "name": "eth3", "pattern": null, "state": "attaching" },
            { "name": "tun0", "pattern": null, "state": "loading" },
            { "name": "eth2", "pattern": null, "state": "failed", "reason": "no" },
        ],
        "conflicts": [
            { "frontend": "10.96.0.1:80/TCP", "holder": "default/a", "waiting": "default/b" },
        ],
        "differences": [{ "frontend": "[fd00::96]:80/99", "difference": "unknown" }],
        "untranslated": 5,
        "tables": [{ "name": "slots_v4", "used": 6, "retired": 13, "capacity": 7 }],
        "maglev": { "tables": 22, "slots": 23, "without_room": ["default/web:http"] },
        "unlocated": [{ "service": "default/web", "address": "10.1.2.3" }],
        "counters": { "connection": 8 },
        "conntrack_early_drop": 9,
        "socket_lb": {
            "mode": "host", "cgroup": "/sys/fs/cgroup", "root": true, "hooks": ["connect4"],
            "problem": "no",
        },
        "stale_sockets": {
            "destroyed_udp": 10,
            "destroyed_tcp": 11,
            "moved_udp": 12,
            "trouble": "the kernel does not list sockets",
        },
        "source": source,
        "listeners": [{ "name": "health", "address": "0.0.0.0:10256", "problem": "taken" }],
        "take_over": {
            "active": true, "mode": "auto", "reason": "kube-proxy's rules are on this host",
            "rules": "nftables (ip kube-proxy)", "connections": 21,
        },
        "uplinks": [
            { "name": "eth0", "state": "native", "index": 7 },
            { "name": "eth1", "state": "generic", "index": 8, "reason": "not in the driver" },
            { "name": "eth2", "state": "failed", "reason": "no" },
        ],
        "consul": consul, "local_api": local_api,
        "host": ["this host does not forward"], "socket_recreated": 41,
        "overrides": [
            { "override": "drain 10.1.1.3:8080", "ends_in_seconds": 61, "endpoints": 51 },
            { "override": "drain --node node-2", "ends_in_seconds": 62, "endpoints": 52 },
            {
                "override": "weight default/web 10.1.1.3 7", "ends_in_seconds": 63, "endpoints": 53,
            },
        ],
        "held_removal": {
            "number": 46, "event": "line 3: Resync", "removed": 42, "frontends": 43, "waiting": 44,
            "seconds": 45,
        },
        "monitor": { "watchers": 61, "told": 62, "lost": 63 },
    });
    assert_eq!(serde_json::to_value(status()).unwrap(), expected);
}

#[test]
fn a_frontend_is_the_same_after_its_message() {
    let frontend = Frontend {
        key: key("10.96.0.1", Protocol::Sctp.number()),
        kind: Some("ClusterIP".into()),
        service: None,
        service_port: Some("dns".into()),
        policy: Some(TrafficPolicy::Local),
        selection: Some(Selection::Maglev),
        forwarding: Some(Forwarding::Dsr),
        masquerade: Some(Masquerade::NotInDsr),
        affinity_timeout: 3,
        backends: vec![Backend {
            ip: "10.1.1.3".parse().unwrap(),
            port: 8080,
            weight: 2,
            local: true,
            new_connections: 12,
        }],
        split: Some(Split {
            mode: SplitMode::Strict,
            refused: 10,
            backends: vec![
                SplitBackend {
                    target: SplitTarget::Service {
                        service: "default/web".into(),
                        port: 80,
                    },
                    weight: 1,
                },
                SplitBackend {
                    target: SplitTarget::Address {
                        ip: "10.1.9.9".parse().unwrap(),
                        port: 8080,
                    },
                    weight: 0,
                },
                SplitBackend {
                    target: SplitTarget::Invalid {
                        invalid: "no such kind".into(),
                    },
                    weight: 11,
                },
            ],
        }),
        difference: Some(Difference::Changed),
        counters: Some(ServiceCounters {
            connections: 4,
            refused: BTreeMap::from([("reject_no_backend".into(), 5)]),
            traffic: Some(ServiceTraffic {
                request_packets: 6,
                request_bytes: 7,
                reply_packets: 8,
                reply_bytes: 9,
            }),
        }),
        source_ranges: vec!["192.0.2.0/24".into()],
        this_node_only: true,
    };
    let message = proto::Frontend::from(frontend.clone());
    assert_eq!(Frontend::try_from(message.clone()), Ok(frontend.clone()));
    let json = serde_json::to_value(&frontend).unwrap();
    assert_eq!(
        json,
        json!({
            "address": "10.96.0.1", "port": 80, "protocol": "SCTP", "kind": "ClusterIP",
            "service": null, "service_port": "dns", "policy": "Local", "selection": "maglev",
            "forwarding": "dsr", "masquerade": "not in dsr",
            "affinity_timeout": 3,
            "backends": [{ "ip": "10.1.1.3", "port": 8080, "weight": 2, "local": true,
                           "new_connections": 12 }],
            "split": { "mode": "strict", "refused": 10, "backends": [
                { "service": "default/web", "port": 80, "weight": 1 },
                { "ip": "10.1.9.9", "port": 8080, "weight": 0 },
                { "invalid": "no such kind", "weight": 11 },
            ] },
            "difference": "changed",
            "counters": {
                "connections": 4, "refused": { "reject_no_backend": 5 },
                "request_packets": 6, "request_bytes": 7, "reply_packets": 8, "reply_bytes": 9,
            },
            "source_ranges": ["192.0.2.0/24"],
        })
    );

    let mut nonsense = message;
    nonsense.backends[0].port = 65_536;
    let error = Malformed::Number(65_536, "a port");
    assert_eq!(Frontend::try_from(nonsense), Err(error));
}

#[test]
fn every_state_of_a_connection_is_the_same_after_its_message() {
    let end = |text: &str| text.parse::<SocketAddr>().unwrap().into();
    for (state, name) in [
        (ConnectionState::New, "NEW"),
        (ConnectionState::Established, "ESTABLISHED"),
        (ConnectionState::Closing, "CLOSING"),
        (ConnectionState::Closed, "CLOSED"),
        (ConnectionState::SynSent, "SYN_SENT"),
        (ConnectionState::SynRecv, "SYN_RECV"),
        (ConnectionState::TimeWait, "TIME_WAIT"),
        (ConnectionState::Unreplied, "UNREPLIED"),
        (ConnectionState::Replied, "REPLIED"),
        (ConnectionState::Assured, "ASSURED"),
    ] {
        let connection = Connection {
            protocol: ProtocolNumber(17),
            client: end("10.1.1.5:40000"),
            frontend: end("10.96.0.1:80"),
            backend: end("10.1.1.3:8080"),
            state,
            idle_seconds: 1,
            snat_source: (state == ConnectionState::New).then(|| end("192.168.16.10:1024")),
        };
        let message = proto::Connection::from(connection);
        assert_eq!(Connection::try_from(message), Ok(connection));
        let json = serde_json::to_value(connection).unwrap();
        assert_eq!(json["state"], Value::from(name));
        assert_eq!(state.to_string(), name);
    }
}

#[test]
fn an_event_of_a_flow_is_the_same_after_its_message() {
    let end = |text: &str| Some(text.parse::<SocketAddr>().unwrap().into());
    let ended = FlowEvent {
        time: SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 5_000),
        kind: FlowKind::Ended,
        reason: "finished".into(),
        protocol: ProtocolNumber(6),
        client: end("10.1.1.5:40000"),
        frontend: end("10.96.0.1:80"),
        service: Some("shop/web".into()),
        service_port: Some("http".into()),
        backend: end("10.1.2.3:8080"),
        snat_source: end("192.168.16.10:1024"),
        duration: Some(Duration::from_millis(1500)),
        packet: None,
    };
    let dropped = FlowEvent {
        kind: FlowKind::Dropped,
        reason: "drop_martian".into(),
        service: None,
        service_port: None,
        backend: None,
        snat_source: None,
        duration: None,
        packet: Some(FlowPacket {
            interface: 2,
            length: 60,
            bytes: vec![1, 2, 3],
            is_ethernet: true,
        }),
        ..ended.clone()
    };
    for event in [&ended, &dropped] {
        let message = proto::FlowEvent::from(event.clone());
        assert_eq!(FlowEvent::try_from(message), Ok(event.clone()));
    }
    assert_eq!(
        serde_json::to_value(&ended).unwrap(),
        json!({
            "time": "2023-11-14T22:13:20.000005Z", "kind": "ended", "reason": "finished",
            "protocol": "TCP", "client": { "ip": "10.1.1.5", "port": 40_000 },
            "frontend": { "ip": "10.96.0.1", "port": 80 }, "service": "shop/web", "service_port": "http",
            "backend": { "ip": "10.1.2.3", "port": 8080 },
            "snat_source": { "ip": "192.168.16.10", "port": 1024 }, "duration_seconds": 1.5,
        })
    );
    let json = serde_json::to_value(&dropped).unwrap();
    assert_eq!(
        (&json["interface"], &json["length"]),
        (&json!(2), &json!(60))
    );
    let nonsense = proto::FlowEvent {
        kind: 5,
        ..proto::FlowEvent::from(ended)
    };
    let error = Malformed::Value(5, "kind of an event");
    assert_eq!(FlowEvent::try_from(nonsense), Err(error));
}
