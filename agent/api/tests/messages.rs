//! Messages express what lines of JSON express: the same events, and the same words for a fault.

use serde_json::{Value, json};
use shunt_api::{
    message::{self, Assembler},
    proto::{
        self, AddServiceRequest, Backends, Scopes, SnapshotPiece, StreamRequest,
        UpdateLocalFrontendIfsRequest, UpdateNodePortServicesRequest, UpdateServiceCidrsRequest,
        stream_request::Event,
    },
};
use shunt_model::{EventKind, RendererEvent, decode};

/// The service that the cases change, as JSON.
fn json_service() -> Value {
    json!({
        "id": { "namespace": "default", "name": "web" },
        "cluster_ips": ["10.96.0.1"],
        "external_ips": ["203.0.113.7"],
        "load_balancer_ips": ["198.51.100.1"],
        "load_balancer_source_ranges": ["192.0.2.0/24"],
        "traffic_policy": "Local",
        "internal_traffic_policy": "Cluster",
        "session_affinity_timeout": 60, "selection": "maglev", "forwarding": "dsr", "masquerade": true,
        "opaque_ports": ["25", "3306-3310"], "profile": { "routes": [], "a": { "c": 1, "b": 2 } },
        "hostnames": { "10.1.1.3": "web-0" },
        "ports": { "http": { "protocol": "TCP", "port": 80, "node_port": 30080 } },
        "backends": { "http": [
            { "ip": "10.1.1.3", "port": 8080, "local": true, "weight": 3, "state": "Terminating",
              "serving": true, "node": "n1", "zone": "z1", "scopes": ["Local"] },
            { "ip": "10.1.2.3", "port": 8080, "host_network": true, "scopes": [] },
        ] },
        "splits": { "http": { "mode": "strict", "frontends": "cluster_ip", "backends": [
            { "service": { "namespace": "default", "name": "web" }, "port": 80, "weight": 90 },
            { "ip": "10.1.9.9", "port": 8080 },
            { "invalid": "no such kind", "weight": 0 },
        ] } },
    })
}

/// The same service as a message.
fn message_service() -> proto::Service {
    proto::Service {
        id: Some(proto::ServiceId {
            namespace: "default".into(),
            name: "web".into(),
        }),
        cluster_ips: vec!["10.96.0.1".into()],
        external_ips: vec!["203.0.113.7".into()],
        load_balancer_ips: vec!["198.51.100.1".into()],
        load_balancer_source_ranges: vec!["192.0.2.0/24".into()],
        traffic_policy: proto::TrafficPolicy::Local.into(),
        internal_traffic_policy: proto::TrafficPolicy::Cluster.into(),
        session_affinity_timeout: 60,
        selection: proto::Selection::Maglev.into(),
        forwarding: proto::Forwarding::Dsr.into(),
        masquerade: Some(true),
        opaque_ports: Some(proto::PortRanges {
            list: vec!["25".to_owned(), "3306-3310".to_owned()],
        }),
        profile: Some(r#"{"a":{"b":2,"c":1},"routes":[]}"#.to_owned()),
        hostnames: [("10.1.1.3".into(), "web-0".into())].into(),
        ports: [("http".into(), port(80, 30080))].into(),
        backends: [("http".into(), backends())].into(),
        splits: [("http".into(), split())].into(),
    }
}

fn split() -> proto::Split {
    proto::Split {
        mode: proto::SplitMode::Strict.into(),
        frontends: proto::SplitFrontends::ClusterIp.into(),
        backends: vec![
            proto::SplitBackend {
                service: Some(proto::ServiceId {
                    namespace: "default".into(),
                    name: "web".into(),
                }),
                port: 80,
                weight: Some(90),
                ..proto::SplitBackend::default()
            },
            proto::SplitBackend {
                ip: Some("10.1.9.9".into()),
                port: 8080,
                ..proto::SplitBackend::default()
            },
            proto::SplitBackend {
                invalid: Some("no such kind".into()),
                weight: Some(0),
                ..proto::SplitBackend::default()
            },
        ],
    }
}

fn port(port: u32, node_port: u32) -> proto::Port {
    proto::Port {
        protocol: proto::Protocol::Tcp.into(),
        port,
        node_port,
    }
}

fn backends() -> Backends {
    let scopes = |list: &[proto::Scope]| {
        let list = list.iter().copied().map(i32::from).collect();
        Some(Scopes { list })
    };
    Backends {
        list: vec![
            proto::Backend {
                ip: "10.1.1.3".into(),
                port: 8080,
                weight: Some(3),
                local: true,
                host_network: false,
                state: proto::EndpointState::Terminating.into(),
                serving: true,
                node: Some("n1".into()),
                zone: Some("z1".into()),
                scopes: scopes(&[proto::Scope::Local]),
            },
            proto::Backend {
                ip: "10.1.2.3".into(),
                port: 8080,
                host_network: true,
                scopes: scopes(&[]),
                ..proto::Backend::default()
            },
        ],
    }
}

/// Returns the event of a line, or its fault.
fn of_line(event: &Value) -> Result<RendererEvent, String> {
    decode(&event.to_string()).map_err(|error| error.to_string())
}

/// Returns the event of a single message, or its fault.
fn of_message(event: &Event) -> Result<RendererEvent, String> {
    message::decode(event).map_err(|error| error.to_string())
}

/// Returns the events of a stream of messages.
fn of_messages(
    messages: impl IntoIterator<Item = StreamRequest>,
) -> Vec<Result<RendererEvent, String>> {
    let mut assembler = Assembler::default();
    let mut events = Vec::new();
    for message in messages {
        events.extend(assembler.next(message));
    }
    events.extend(assembler.finish());
    let text = |error: shunt_model::EventError| error.to_string();
    events
        .into_iter()
        .map(|event| event.map_err(text))
        .collect()
}

const fn add(service: proto::Service) -> Event {
    Event::AddService(AddServiceRequest {
        service: Some(service),
    })
}

#[test]
fn a_message_with_every_field_says_what_the_line_says() {
    let line = json!({ "event": "AddService", "service": json_service() });
    let event = of_line(&line).unwrap();
    assert_eq!(of_message(&add(message_service())), Ok(event));
}

#[test]
fn what_is_left_out_of_a_message_has_the_defaults_of_json() {
    let line = json!({ "event": "AddService", "service": {
        "id": { "namespace": "default", "name": "web" },
        "ports": { "": { "protocol": "UDP", "port": 53 } },
        "backends": { "": [{ "ip": "10.1.1.3", "port": 53, "local": true }] },
    } });
    let service = proto::Service {
        id: message_service().id,
        ports: [(
            String::new(),
            proto::Port {
                protocol: proto::Protocol::Udp.into(),
                port: 53,
                node_port: 0,
            },
        )]
        .into(),
        backends: [(
            String::new(),
            Backends {
                list: vec![proto::Backend {
                    ip: "10.1.1.3".into(),
                    port: 53,
                    local: true,
                    ..proto::Backend::default()
                }],
            },
        )]
        .into(),
        ..proto::Service::default()
    };
    assert_eq!(of_message(&add(service)), of_line(&line));
}

#[test]
fn every_event_survives_its_way_through_messages() {
    let service = json_service();
    let id = &service["id"];
    let pod = json!({ "kind": "Pod", "namespace": "default", "name": "web-1" });
    let workload = json!({
        "id": pod, "ips": ["10.1.1.3", "fd00::3"], "node": "a", "phase": "Pending", "ready": false,
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "host_ports": [{ "ip": "192.168.16.10", "port": 53, "protocol": "UDP" }],
        "owner": { "kind": "ReplicaSet", "name": "web" }, "opaque_ports": ["25", "3306-3310"],
        "policy_opaque_ports": ["81"],
        "mesh": { "service_account": "web", "control_plane": "linkerd", "inbound_port": 4143,
                  "skipped_ports": ["25"] },
    });
    let machine = json!({ "kind": "ExternalWorkload", "namespace": "default", "name": "vm" });
    let mesh =
        json!({ "uri": "spiffe://a/vm", "server_name": "vm.example.org", "inbound_port": 4143 });
    let mut kinds = Vec::new();
    for line in [
        json!({ "event": "Resync", "node_ips": ["192.168.16.10", "fd00::1"],
                "services": [service], "frontend_ifs": ["eth0"], "backend_ifs": ["pod-a"],
                "service_cidrs": ["10.96.0.0/12", "fd00:10:96::/112"],
                "nodes": { "a": ["192.168.16.10"] }, "workloads": [workload] }),
        json!({ "event": "Resync", "node_ips": [], "services": [] }),
        json!({ "event": "AddService", "service": service }),
        json!({ "event": "UpdateService", "service": service }),
        json!({ "event": "DeleteService", "id": id }),
        json!({ "event": "UpdateNodePortServices", "node_ips": ["192.168.16.10"],
                "services": [service] }),
        json!({ "event": "UpdateLocalFrontendIfs", "new": ["eth0", "eth1"] }),
        json!({ "event": "UpdateLocalBackendIfs", "new": [] }),
        json!({ "event": "UpdateServiceCidrs", "new": ["10.96.0.0/12", "fd00:10:96::/112"] }),
        json!({ "event": "UpdateNodes", "nodes": { "a": ["192.168.16.10", "fd00::1"], "b": [] } }),
        json!({ "event": "UpdateWorkloads", "workloads": [workload, { "id": machine, "mesh": mesh }],
                "gone": [{ "kind": "Pod", "namespace": "default", "name": "web-0" }] }),
    ] {
        let event = of_line(&line).unwrap();
        kinds.push(event.kind());
        assert_eq!(of_messages(message::encode(event.clone())), [Ok(event)]);
    }
    kinds.dedup();
    assert_eq!(kinds, EventKind::ALL, "no event is left out");
}

#[test]
fn a_large_snapshot_comes_in_pieces_and_is_one_event() {
    let services: Vec<Value> = (0..20_000)
        .map(|number| {
            let mut service = json_service();
            service["id"]["name"] = format!("s{number}").into();
            service
        })
        .collect();
    let line = json!({ "event": "Resync", "node_ips": ["192.168.16.10"], "services": services,
                       "frontend_ifs": ["eth0"] });
    let event = of_line(&line).unwrap();
    let messages: Vec<_> = message::encode(event.clone()).collect();
    assert!(messages.len() > 2, "{} messages", messages.len());
    assert!(of_messages(messages) == [Ok(event)]);
}

/// A piece of a snapshot with these services.
fn piece(services: Vec<proto::Service>, more: bool) -> StreamRequest {
    let snapshot = Some(proto::Snapshot {
        services,
        ..proto::Snapshot::default()
    });
    let event = Some(Event::Resync(SnapshotPiece {
        snapshot,
        more,
        over_source: false,
    }));
    StreamRequest { event }
}

#[test]
fn a_snapshot_is_refused_once_whichever_piece_is_wrong() {
    let twice = "service default/web: the service is already in services[0]";
    let unnamed = "services[1]: missing field `id`";
    let web = message_service;
    let other = || StreamRequest {
        event: Some(Event::UpdateLocalFrontendIfs(
            UpdateLocalFrontendIfsRequest { new: Vec::new() },
        )),
    };
    let unfinished = "the snapshot is unfinished: its last piece did not come";
    let cases: [(Vec<StreamRequest>, &[Option<&str>]); 6] = [
        (
            vec![
                piece(vec![web()], true),
                piece(vec![web()], true),
                piece(vec![], false),
            ],
            &[Some(twice)],
        ),
        (
            vec![
                piece(vec![web()], true),
                piece(vec![proto::Service::default()], false),
            ],
            &[Some(unnamed)],
        ),
        (vec![piece(vec![web()], true)], &[Some(unfinished)]),
        (
            vec![piece(vec![web()], true), other()],
            &[Some(unfinished), None],
        ),
        (
            vec![
                piece(vec![web(), web()], true),
                other(),
                piece(vec![web()], false),
            ],
            &[Some(twice), None, None],
        ),
        (
            vec![StreamRequest { event: None }, other()],
            &[Some("missing field `event`"), None],
        ),
    ];
    for (messages, expected) in cases {
        let found: Vec<_> = of_messages(messages).into_iter().map(Result::err).collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|text| text.map(str::to_owned))
            .collect();
        assert_eq!(found, expected);
    }
}

/// A change of the service, in both forms.
type Case = (fn(&mut Value), fn(&mut proto::Service));

fn of_http(service: &mut proto::Service) -> &mut proto::Split {
    service.splits.get_mut("http").unwrap()
}

fn first(service: &mut proto::Service) -> &mut proto::Backend {
    &mut service.backends.get_mut("http").unwrap().list[0]
}

fn http(service: &mut proto::Service) -> &mut proto::Port {
    service.ports.get_mut("http").unwrap()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn what_is_wrong_with_a_service_is_said_in_the_words_of_json() {
    let cases: [Case; 40] = [
        (
            |j| j["id"]["namespace"] = "".into(),
            |m| m.id.as_mut().unwrap().namespace.clear(),
        ),
        (
            |j| j["id"]["name"] = "a/b".into(),
            |m| m.id.as_mut().unwrap().name = "a/b".into(),
        ),
        (
            |j| drop(j.as_object_mut().unwrap().remove("id")),
            |m| m.id = None,
        ),
        (
            |j| j["cluster_ips"][0] = "10.96.0.256".into(),
            |m| m.cluster_ips[0] = "10.96.0.256".into(),
        ),
        (
            |j| j["cluster_ips"][0] = "127.0.0.1".into(),
            |m| m.cluster_ips[0] = "127.0.0.1".into(),
        ),
        (
            |j| j["external_ips"][0] = "0.0.0.0".into(),
            |m| m.external_ips[0] = "0.0.0.0".into(),
        ),
        (
            |j| j["external_ips"][0] = "::ffff:1.2.3.4".into(),
            |m| m.external_ips[0] = "::ffff:1.2.3.4".into(),
        ),
        (
            |j| j["load_balancer_ips"][0] = "10.96.0.1".into(),
            |m| m.load_balancer_ips[0] = "10.96.0.1".into(),
        ),
        (
            |j| j["load_balancer_source_ranges"][0] = "192.0.2.0/33".into(),
            |m| m.load_balancer_source_ranges[0] = "192.0.2.0/33".into(),
        ),
        (
            |j| j["traffic_policy"] = "7".into(),
            |m| m.traffic_policy = 7,
        ),
        (
            |j| j["internal_traffic_policy"] = "7".into(),
            |m| m.internal_traffic_policy = 7,
        ),
        (
            |j| j["ports"]["http"]["port"] = 0.into(),
            |m| http(m).port = 0,
        ),
        (
            |j| j["ports"]["http"]["port"] = 65_536.into(),
            |m| http(m).port = 65_536,
        ),
        (
            |j| j["ports"]["http"]["node_port"] = 65_536.into(),
            |m| http(m).node_port = 65_536,
        ),
        (
            |j| j["ports"]["http"]["protocol"] = "7".into(),
            |m| http(m).protocol = 7,
        ),
        (
            |j| {
                let port = j["ports"]["http"].as_object_mut().unwrap();
                drop(port.remove("protocol"));
            },
            |m| http(m).protocol = 0,
        ),
        (
            |j| j["ports"]["web"] = json!({"protocol":"TCP","port":80}),
            |m| m.ports.extend([("web".into(), port(80, 0))]),
        ),
        (
            |j| j["ports"]["web"] = json!({"protocol":"TCP","port":81,"node_port":30080}),
            |m| m.ports.extend([("web".into(), port(81, 30080))]),
        ),
        (
            |j| j["ports"][""] = json!({"protocol":"TCP","port":81}),
            |m| m.ports.extend([(String::new(), port(81, 0))]),
        ),
        (
            |j| j["backends"]["a.b"] = json!([]),
            |m| drop(m.backends.insert("a.b".into(), Backends::default())),
        ),
        (
            |j| j["backends"]["http"][0]["ip"] = "here".into(),
            |m| first(m).ip = "here".into(),
        ),
        (
            |j| j["backends"]["http"][0]["ip"] = "fd00::1".into(),
            |m| first(m).ip = "fd00::1".into(),
        ),
        (
            |j| j["backends"]["http"][0]["port"] = 0.into(),
            |m| first(m).port = 0,
        ),
        (
            |j| j["backends"]["http"][0]["port"] = 70_000.into(),
            |m| first(m).port = 70_000,
        ),
        (
            |j| j["backends"]["http"][0]["state"] = "9".into(),
            |m| first(m).state = 9,
        ),
        (
            |j| j["backends"]["http"][0]["local"] = false.into(),
            |m| first(m).local = false,
        ),
        (
            |j| j["backends"]["http"][0]["scopes"][0] = "0".into(),
            |m| first(m).scopes.as_mut().unwrap().list[0] = 0,
        ),
        (
            |j| j["backends"]["http"][0]["scopes"][0] = "9".into(),
            |m| first(m).scopes.as_mut().unwrap().list[0] = 9,
        ),
        (
            |j| j["backends"]["http"][1]["ip"] = "10.1.1.3".into(),
            |m| m.backends.get_mut("http").unwrap().list[1].ip = "10.1.1.3".into(),
        ),
        (
            |j| j["backends"]["http"][1]["ip"] = "224.0.0.1".into(),
            |m| m.backends.get_mut("http").unwrap().list[1].ip = "224.0.0.1".into(),
        ),
        (
            |j| j["splits"]["a.b"] = json!({"mode":"first","backends":[]}),
            |m| {
                let mode = proto::SplitMode::First.into();
                let split = proto::Split {
                    mode,
                    ..proto::Split::default()
                };
                drop(m.splits.insert("a.b".into(), split));
            },
        ),
        (
            |j| drop(j["splits"]["http"].as_object_mut().unwrap().remove("mode")),
            |m| of_http(m).mode = 0,
        ),
        (
            |j| j["splits"]["http"]["mode"] = "9".into(),
            |m| of_http(m).mode = 9,
        ),
        (
            |j| j["splits"]["http"]["frontends"] = "9".into(),
            |m| of_http(m).frontends = 9,
        ),
        (
            |j| j["splits"]["http"]["backends"][0]["port"] = 0.into(),
            |m| of_http(m).backends[0].port = 0,
        ),
        (
            |j| j["splits"]["http"]["backends"][0]["port"] = 70_000.into(),
            |m| of_http(m).backends[0].port = 70_000,
        ),
        (
            |j| j["splits"]["http"]["backends"][1]["ip"] = "here".into(),
            |m| of_http(m).backends[1].ip = Some("here".into()),
        ),
        (
            |j| j["splits"]["http"]["backends"][1]["weight"] = u32::MAX.into(),
            |m| of_http(m).backends[1].weight = Some(u32::MAX),
        ),
        (
            |j| j["splits"]["http"]["backends"][2]["port"] = 1.into(),
            |m| of_http(m).backends[2].port = 1,
        ),
        (
            |j| j["splits"]["http"]["backends"][2] = json!({}),
            |m| of_http(m).backends[2] = proto::SplitBackend::default(),
        ),
    ];
    for (change_json, change_message) in cases {
        let (mut json, mut message) = (json_service(), message_service());
        change_json(&mut json);
        change_message(&mut message);
        let line = json!({ "event": "AddService", "service": json });
        let expected = of_line(&line).expect_err("every case is wrong");
        assert_eq!(of_message(&add(message.clone())), Err(expected), "{line}");

        // Within a list the service is at another place, or none is named.
        let line = json!({ "event": "UpdateNodePortServices", "node_ips": [], "services": [json] });
        let expected = of_line(&line).expect_err("every case is wrong");
        let update = Event::UpdateNodePortServices(UpdateNodePortServicesRequest {
            node_ips: Vec::new(),
            services: vec![message],
        });
        assert_eq!(of_message(&update), Err(expected), "{line}");
    }
}

#[test]
fn what_is_wrong_with_other_events_is_said_in_the_words_of_json() {
    let long = "an-interface-name";
    let interfaces = |new: &str| {
        let new = vec![new.to_owned()];
        Event::UpdateLocalFrontendIfs(UpdateLocalFrontendIfsRequest { new })
    };
    let nodes = |ip: &str| {
        Event::UpdateNodePortServices(UpdateNodePortServicesRequest {
            node_ips: vec!["192.168.16.10".into(), ip.to_owned()],
            services: Vec::new(),
        })
    };
    let resync = |interface: &str| {
        Event::Resync(SnapshotPiece {
            snapshot: Some(proto::Snapshot {
                backend_ifs: vec![interface.to_owned()],
                ..proto::Snapshot::default()
            }),
            more: false,
            over_source: false,
        })
    };
    for (line, event) in [
        (
            json!({ "event": "UpdateLocalFrontendIfs", "new": [long] }),
            interfaces(long),
        ),
        (
            json!({ "event": "UpdateLocalFrontendIfs", "new": [""] }),
            interfaces(""),
        ),
        (
            json!({ "event": "UpdateNodePortServices", "node_ips": ["192.168.16.10", "x"] }),
            nodes("x"),
        ),
        (
            json!({ "event": "Resync", "node_ips": [], "services": [], "backend_ifs": ["a b"] }),
            resync("a b"),
        ),
        (
            json!({ "event": "UpdateServiceCidrs", "new": ["0.0.0.0/0"] }),
            Event::UpdateServiceCidrs(UpdateServiceCidrsRequest {
                new: vec!["0.0.0.0/0".into()],
            }),
        ),
        (
            json!({ "event": "AddService" }),
            Event::AddService(AddServiceRequest { service: None }),
        ),
        (
            json!({ "event": "DeleteService" }),
            Event::DeleteService(proto::DeleteServiceRequest { id: None }),
        ),
    ] {
        let expected = of_line(&line).expect_err("every case is wrong");
        assert_eq!(of_message(&event), Err(expected), "{line}");
    }
}
