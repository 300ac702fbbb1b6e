//! Clients that take the room of the agent's gRPC servers.

use std::time::{Duration, Instant};

use shunt_api::proto::{
    StatusRequest, WatchRequest, WatchResponse, inspection_client::InspectionClient,
};
use shunt_tests::{Transport, by_length, make_room_for_files, patience, wait_until};
use tonic::{
    Code, Status, Streaming,
    transport::{Channel, Endpoint},
};

use crate::{http::ASKED, service::Service, world::World};

/// Streams that are opened at one connection.
const EACH: usize = 100;

/// Memory that streams may cost that their clients do not read.
const COST: f64 = 40e6;

fn block_on<T>(client: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(client)
}

async fn connect(world: &World) -> Channel {
    let place = format!("unix:{}", world.agent.socket().display());
    let endpoint = Endpoint::from_shared(place).unwrap();
    // As little as HTTP/2 has: what a client does not read stays with the agent.
    let endpoint = endpoint.initial_stream_window_size(1024);
    endpoint.connect().await.unwrap()
}

/// Follows the service, and reads nothing.
async fn follow(channel: &Channel) -> Result<Streaming<WatchResponse>, Status> {
    let request = WatchRequest {
        ip: "10.96.0.10".to_owned(),
        port: Some(80),
        protocol: 6,
        service: None,
    };
    let followed = InspectionClient::new(channel.clone())
        .watch(request)
        .await?;
    Ok(followed.into_inner())
}

async fn status(channel: Channel) -> Result<(), Status> {
    let asked = InspectionClient::new(channel)
        .status(StatusRequest { brief: false })
        .await;
    asked.map(|_| ())
}

/// A service with many endpoints.
fn large(weight: u32) -> Service {
    let backends = (1..=250).map(|host| ([10, 1, 2, host], 8080).into());
    let service = Service::new(Transport::Tcp);
    backends.fold(service, |service, backend| {
        service.weighted(backend, weight)
    })
}

/// An agent with little room.
fn small() -> Option<World> {
    let limits = [
        "--max-socket-streams",
        "4",
        "--max-socket-connections",
        "600",
    ];
    World::with_flags(&[&ASKED[..], &limits].concat())
}

#[test]
fn streams_leave_room_to_calls_that_end() {
    let Some(world) = small() else {
        return;
    };
    block_on(async {
        let channel = connect(&world).await;
        let mut streams = Vec::new();
        for _ in 0..4 {
            streams.push(follow(&channel).await.unwrap());
        }
        let other = connect(&world).await;
        for channel in [&channel, &other] {
            let refused = follow(channel).await.unwrap_err();
            assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
            status(channel.clone()).await.unwrap();
        }
        assert!(world.metric("shunt_calls_refused_total").unwrap() >= 2.0);
        streams.pop();
        // The agent hears of the end of a stream a little later.
        let deadline = Instant::now() + patience(Duration::from_secs(10));
        while let Err(refused) = follow(&other).await {
            assert!(Instant::now() < deadline, "{refused}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn connections_without_calls_give_way_to_commands() {
    let Some(world) = small() else {
        return;
    };
    make_room_for_files(1500).unwrap();
    let socket = world.agent.socket();
    let connect = |_| std::os::unix::net::UnixStream::connect(socket).unwrap();
    let silent: Vec<_> = (0..1000).map(connect).collect();
    block_on(async { status(self::connect(&world).await).await.unwrap() });
    // On a slow machine, some have been silent for too long before the others come.
    assert!(world.metric("shunt_connections_evicted_total").unwrap() > 0.0);
    drop(silent);
}

#[test]
fn unread_streams_cost_little() {
    let Some(mut world) = World::with_flags(&ASKED) else {
        return;
    };
    let connections = by_length(30, 100);
    world.add(&large(1));
    let rest = world.metric("process_resident_memory_bytes").unwrap();
    block_on(async {
        let (mut held, mut refused) = (Vec::new(), 0);
        for _ in 0..connections {
            let channel = connect(&world).await;
            for _ in 0..EACH {
                match follow(&channel).await {
                    Ok(stream) => held.push(stream),
                    Err(error) => {
                        assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
                        refused += 1;
                    }
                }
            }
        }
        assert!(refused > 0 && held.len() >= 1000, "{} held", held.len());
        for weight in 2..20 {
            world.update(&large(weight));
        }
        let cost = world.metric("process_resident_memory_bytes").unwrap() - rest;
        assert!(cost <= COST, "{cost} bytes");
        status(connect(&world).await).await.unwrap();
    });
    let again = || {
        let followed = block_on(async { follow(&connect(&world).await).await.map(drop) });
        followed.ok()
    };
    wait_until("room for a stream", Duration::from_secs(10), again).unwrap();
}
