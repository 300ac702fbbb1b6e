//! The gRPC methods, called by a client of the published interface.

use std::{path::Path, time::Duration};

use shunt_api::proto::{
    AddServiceRequest, Applied, Backend, Backends, DeleteServiceRequest, LookupRequest, Port,
    Protocol, Refused, Scopes, Service, ServiceId, Snapshot, SnapshotPiece, StreamRequest,
    UpdateLocalBackendIfsRequest, UpdateLocalFrontendIfsRequest, UpdateNodePortServicesRequest,
    UpdateServiceCidrsRequest, UpdateServiceRequest, events_client::EventsClient,
    inspection_client::InspectionClient, stream_request::Event, stream_response,
};
use shunt_tests::addresses;
use tokio::runtime::Runtime;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use crate::world::World;

/// A service on one ClusterIP with one backend.
fn service(name: &str, port: u32) -> Service {
    let backend = Backend {
        ip: addresses::POD_A.to_string(),
        port: 8080,
        local: true,
        scopes: None::<Scopes>,
        ..Backend::default()
    };
    Service {
        id: Some(id(name)),
        cluster_ips: vec!["10.96.0.10".into()],
        ports: [(
            "http".into(),
            Port {
                protocol: Protocol::Tcp.into(),
                port,
                node_port: 0,
            },
        )]
        .into(),
        backends: [(
            "http".into(),
            Backends {
                list: vec![backend],
            },
        )]
        .into(),
        ..Service::default()
    }
}

fn id(name: &str) -> ServiceId {
    ServiceId {
        namespace: "default".into(),
        name: name.into(),
    }
}

fn add(name: &str, port: u32) -> AddServiceRequest {
    AddServiceRequest {
        service: Some(service(name, port)),
    }
}

fn piece(services: Vec<Service>, more: bool) -> SnapshotPiece {
    let snapshot = Some(Snapshot {
        services,
        ..Snapshot::default()
    });
    SnapshotPiece {
        snapshot,
        more,
        // The agent of the tests reads events as well.
        over_source: true,
    }
}

fn endpoint(socket: &Path) -> Endpoint {
    Endpoint::from_shared(format!("unix:{}", socket.display())).unwrap()
}

async fn connect(socket: &Path) -> Channel {
    endpoint(socket).connect().await.unwrap()
}

/// Runs a client.
fn block_on<T>(client: impl Future<Output = T>) -> T {
    let runtime: Runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(client)
}

/// Returns the numbers of frontends added, changed, removed.
fn counts(applied: Result<tonic::Response<Applied>, Status>) -> [u64; 3] {
    let applied = applied.unwrap().into_inner();
    [applied.added, applied.changed, applied.removed]
}

#[test]
fn each_event_has_a_method() {
    let Some(world) = World::new() else {
        return;
    };
    block_on(async {
        let mut events = EventsClient::new(connect(world.agent.socket()).await);
        let pieces = [
            piece(vec![service("a", 1)], true),
            piece(vec![service("b", 2)], false),
        ];
        let resync = events.resync(tokio_stream::iter(pieces)).await;
        assert_eq!(counts(resync), [2, 0, 0], "in pieces, applied as one");
        assert_eq!(counts(events.add_service(add("c", 3)).await), [1, 0, 0]);
        let update = UpdateServiceRequest {
            service: Some(service("c", 4)),
        };
        assert_eq!(counts(events.update_service(update).await), [1, 0, 1]);
        let delete = DeleteServiceRequest { id: Some(id("c")) };
        assert_eq!(counts(events.delete_service(delete).await), [0, 0, 1]);
        let nodes = UpdateNodePortServicesRequest {
            node_ips: vec![addresses::NODE.to_string()],
            services: vec![service("a", 5)],
        };
        let nodes = events.update_node_port_services(nodes).await;
        assert_eq!(counts(nodes), [1, 0, 1]);
        let new = vec!["eth0".to_owned()];
        let interfaces = UpdateLocalFrontendIfsRequest { new: new.clone() };
        let interfaces = events.update_local_frontend_ifs(interfaces).await;
        assert_eq!(counts(interfaces), [0, 0, 0]);
        let interfaces = UpdateLocalBackendIfsRequest { new };
        let interfaces = events.update_local_backend_ifs(interfaces).await;
        assert_eq!(counts(interfaces), [0, 0, 0]);
        let new = vec!["10.96.0.0/12".to_owned()];
        let ranges = UpdateServiceCidrsRequest { new };
        let ranges = events.update_service_cidrs(ranges).await;
        assert_eq!(counts(ranges), [0, 0, 0]);
    });
}

#[test]
fn a_refused_call_has_a_status_and_no_effect() {
    let Some(world) = World::new() else {
        return;
    };
    block_on(async {
        let channel = connect(world.agent.socket()).await;
        let mut events = EventsClient::new(channel.clone());
        let wrong = events.add_service(add("a", 70_000)).await.unwrap_err();
        let words =
            "service default/a: ports.http.port: invalid value: integer `70000`, expected u16";
        assert_eq!(
            (wrong.code(), wrong.message()),
            (Code::InvalidArgument, words)
        );

        let mut large = service("a", 80);
        let backends = large.backends.get_mut("http").unwrap();
        let one = backends.list[0].clone();
        backends.list = (0..300)
            .map(|number| Backend {
                port: 1_000 + number,
                ..one.clone()
            })
            .collect();
        let request = AddServiceRequest {
            service: Some(large),
        };
        let full = events.add_service(request).await.unwrap_err();
        assert_eq!(full.code(), Code::ResourceExhausted);
        assert!(
            full.message().starts_with("the backends table is full"),
            "{full}"
        );

        // As a client ends its stream that fails half-way.
        let unfinished = [piece(Vec::new(), true)];
        let cut_off = events.resync(tokio_stream::iter(unfinished)).await;
        let cut_off = cut_off.unwrap_err();
        let words = "the snapshot is unfinished: its last piece did not come";
        assert_eq!(
            (cut_off.code(), cut_off.message()),
            (Code::InvalidArgument, words)
        );

        let mut inspection = InspectionClient::new(channel);
        let place = LookupRequest {
            ip: "here".to_owned(),
            port: None,
            protocol: 0,
            service: None,
        };
        let wrong = inspection.lookup(place).await.unwrap_err();
        assert_eq!(wrong.code(), Code::InvalidArgument);
    });
    let status = world.shunt(&["status", "-o", "json"]).json();
    assert_eq!(status["refused"], 3, "{status}");
    assert_eq!(world.shunt(&["services", "-o", "json"]).clean(), "[]\n");
}

#[test]
fn a_refused_event_does_not_end_a_stream() {
    let Some(world) = World::new() else {
        return;
    };
    block_on(async {
        let mut events = EventsClient::new(connect(world.agent.socket()).await);
        let messages = [
            Event::Resync(piece(vec![service("a", 1)], true)),
            Event::Resync(piece(vec![service("b", 2)], false)),
            Event::AddService(add("c", 0)),
            Event::AddService(add("d", 4)),
        ];
        let messages = messages.map(|event| StreamRequest { event: Some(event) });
        let answers = events.stream(tokio_stream::iter(messages)).await.unwrap();
        let mut answers = answers.into_inner();
        let mut found = Vec::new();
        while let Some(answer) = answers.message().await.unwrap() {
            found.push(match answer.result.unwrap() {
                stream_response::Result::Applied(applied) => (answer.event, Ok(applied.added)),
                stream_response::Result::Refused(Refused { code, reason }) => {
                    (answer.event, Err((code, reason)))
                }
            });
        }
        let words = "service default/c: ports.http.port: the port is 0".to_owned();
        let refused = (Code::InvalidArgument as i32, words);
        assert_eq!(found, [(1, Ok(2)), (2, Err(refused)), (3, Ok(1))]);
    });
}

#[test]
fn a_client_that_does_not_read_keeps_nobody_waiting() {
    let Some(world) = World::new() else {
        return;
    };
    block_on(async {
        let slow = endpoint(world.agent.socket())
            .initial_stream_window_size(1 << 16)
            .connect()
            .await
            .unwrap();
        // Answers of which it takes none: they fill what lies between, and then the stream stands,
        // or the connection ends (h2 bounds what is not read).
        let mut stream = EventsClient::new(slow);
        let (messages, outgoing) = tokio::sync::mpsc::channel(1);
        let outgoing = tokio_stream::wrappers::ReceiverStream::new(outgoing);
        let answers = stream.stream(outgoing).await.unwrap();
        let mut goes_on = true;
        for number in 0..60_000 {
            let event = Some(Event::AddService(add("slow", 1 + number)));
            let sent = messages.send(StreamRequest { event });
            let sent = tokio::time::timeout(Duration::from_millis(500), sent).await;
            goes_on = matches!(sent, Ok(Ok(())));
            if !goes_on {
                break;
            }
        }
        assert!(!goes_on, "whoever does not read cannot send for ever");
        let mut events = EventsClient::new(connect(world.agent.socket()).await);
        let other = AddServiceRequest {
            service: Some(Service {
                cluster_ips: vec!["10.96.0.11".into()],
                ..service("quick", 80)
            }),
        };
        let added = tokio::time::timeout(Duration::from_secs(5), events.add_service(other)).await;
        assert_eq!(counts(added.expect("others are answered")), [1, 0, 0]);
        drop(answers);
    });
}
