//! An address that is followed over gRPC.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shunt_api::{
    message::join_lookup,
    proto::{
        LookupRequest, LookupResponse, WatchRequest, WatchResponse,
        inspection_client::InspectionClient,
    },
};
use shunt_tests::{Agent, PinDir, Sandbox, Transport, addresses, by_length, has_root, patience};
use tokio::{task::JoinSet, time::timeout};
use tonic::{
    Streaming,
    transport::{Channel, Endpoint},
};

use crate::{
    command::shunt_at,
    service::Service,
    world::{World, binary, resync},
};

/// Time that a change may take to reach followers, with much else to do on the machine.
const SOON: Duration = Duration::from_secs(10);

/// A client's state, built from the answers: the endpoints' weights.
type Known = BTreeMap<(IpAddr, u32), u32>;

async fn connect(world: &World) -> Channel {
    connect_to(world.agent.socket()).await
}

async fn connect_to(socket: &Path) -> Channel {
    let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display())).unwrap();
    endpoint.connect().await.unwrap()
}

async fn follow(channel: Channel, ip: &str) -> Streaming<WatchResponse> {
    let request = WatchRequest {
        ip: ip.to_owned(),
        port: Some(80),
        protocol: 6,
        service: None,
    };
    let changes = InspectionClient::new(channel).watch(request).await;
    changes.unwrap().into_inner()
}

async fn next(changes: &mut Streaming<WatchResponse>) -> WatchResponse {
    let next = timeout(patience(SOON), changes.message()).await;
    next.expect("a message comes").unwrap().expect("it goes on")
}

/// Applies a message, the adds before the removes.
fn apply_change(known: &mut Known, change: &WatchResponse) {
    for add in &change.adds {
        let key = add.key.as_ref().unwrap();
        known.insert((key.ip.parse().unwrap(), key.port), add.weight);
    }
    for key in &change.removes {
        let gone = known.remove(&(key.ip.parse().unwrap(), key.port));
        assert!(gone.is_some(), "{key:?} was not there");
    }
}

fn block_on<T>(client: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(client)
}

#[test]
fn what_is_followed_is_told_whole_and_then_by_what_is_new() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    let service = || Service::new(Transport::Tcp);
    world.add(&service().backend(a));
    block_on(async {
        let mut changes = follow(connect(&world).await, "10.96.0.10").await;
        let mut known = Known::new();
        let first = next(&mut changes).await;
        apply_change(&mut known, &first);
        assert!(first.snapshot && !first.rebind && first.empty.is_none());
        assert_eq!(first.targets.unwrap().kind, "ClusterIP");
        let weights = |known: &Known| -> Vec<_> { known.clone().into_iter().collect() };
        assert_eq!(weights(&known), [((a.ip(), a.port().into()), 1)]);

        // A change elsewhere is none here.
        let interfaces = json!({ "event": "UpdateLocalBackendIfs", "new": ["pod-a"] });
        world.apply(&interfaces.to_string());
        world.update(&service().weighted(a, 3).backend(b));
        let changed = next(&mut changes).await;
        apply_change(&mut known, &changed);
        assert!(!changed.snapshot && changed.removes.is_empty());
        assert_eq!(
            changed.generation,
            first.generation + 2,
            "the first is skipped"
        );
        let both = [
            ((a.ip(), a.port().into()), 3),
            ((b.ip(), b.port().into()), 1),
        ];
        assert_eq!(weights(&known), both);

        world.update(&service());
        let emptied = next(&mut changes).await;
        apply_change(&mut known, &emptied);
        assert!(known.is_empty() && emptied.empty.unwrap().exists && !emptied.rebind);

        world.apply(&Service::delete());
        let gone = next(&mut changes).await;
        assert!(gone.rebind && !gone.empty.unwrap().exists);
        assert_eq!(gone.targets.unwrap().kind, "Unknown");

        world.add(&service().backend(b));
        let again = next(&mut changes).await;
        apply_change(&mut known, &again);
        assert!(again.rebind && again.empty.is_none());
        assert_eq!(weights(&known), [((b.ip(), b.port().into()), 1)]);
    });
}

/// A client that has set nothing takes messages of 4 MiB, in Go and Python as in Rust.
#[test]
fn an_answer_of_20000_endpoints_is_for_clients_with_default_limits() {
    const ENDPOINTS: u32 = 20_000;
    if !has_root() {
        return;
    }
    let sandbox = Sandbox::new().unwrap();
    let pins = PinDir::new();
    // With tables of the default sizes.
    let agent = Agent::alone::<&str>(&binary(), sandbox.node(), &pins, &[]).unwrap();
    let ip = |index: u32| {
        let [_, _, c, d] = index.to_be_bytes();
        IpAddr::from([10, 128, c, d])
    };
    let backends: Vec<Value> = (0..ENDPOINTS)
        .map(|index| json!({ "ip": ip(index), "port": 8080 }))
        .collect();
    let workloads: Vec<Value> = (0..ENDPOINTS)
        .map(|index| {
            let name = format!("web-{index}-{}", "x".repeat(200));
            let id = json!({ "kind": "Pod", "namespace": "default", "name": name });
            json!({ "id": id, "ips": [ip(index)] })
        })
        .collect();
    let mut snapshot: Value = serde_json::from_str(&resync()).unwrap();
    snapshot["services"] = json!([{
        "id": { "namespace": "default", "name": "web" },
        "cluster_ips": ["10.96.0.10"],
        "ports": { "http": { "protocol": "TCP", "port": 80 } },
        "backends": { "http": backends },
    }]);
    snapshot["workloads"] = workloads.into();
    let apply = |event: String| shunt_at(agent.socket(), &["apply", "-"], &event).clean();
    apply(snapshot.to_string());
    block_on(async {
        let channel = connect_to(agent.socket()).await;
        let asked = LookupRequest {
            ip: "10.96.0.10".to_owned(),
            port: Some(80),
            protocol: 6,
            service: None,
        };
        let asked = InspectionClient::new(channel.clone()).lookup(asked).await;
        let mut pieces = asked.unwrap().into_inner();
        let (mut whole, mut count) = (LookupResponse::default(), 0);
        while let Some(piece) = pieces.message().await.unwrap() {
            join_lookup(&mut whole, piece);
            count += 1;
        }
        assert!(count > 1, "it is too large for one message");
        assert_eq!(whole.answer.unwrap().endpoints.len(), ENDPOINTS as usize);
        assert_eq!(whole.frontends.len(), 1);

        let mut changes = follow(channel, "10.96.0.10").await;
        let mut known = Known::new();
        loop {
            let piece = next(&mut changes).await;
            apply_change(&mut known, &piece);
            if !piece.more {
                break;
            }
        }
        assert_eq!(known.len(), ENDPOINTS as usize);
    });
    let found = shunt_at(
        agent.socket(),
        &["lookup", "10.96.0.10:80", "-o", "json"],
        "",
    )
    .json();
    let endpoints = found["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), ENDPOINTS as usize);
    // Nothing is left to keep up.
    apply(resync());
}

#[test]
fn who_follows_again_after_a_restart_sees_no_gap() {
    let Some(mut world) = World::new() else {
        return;
    };
    let a = world.backend("pod-a");
    let service = Service::new(Transport::Tcp).backend(a);
    world.add(&service);
    let mut world = world.stopped().start(&[]);
    let snapshot = crate::world::resync_with(&[service.json()]);
    block_on(async {
        let channel = connect(&world).await;
        let following = tokio::spawn(async move {
            let mut changes = follow(channel, "10.96.0.10").await;
            next(&mut changes).await
        });
        // It has asked by now, or asks later: its answer is the same.
        tokio::time::sleep(Duration::from_millis(50)).await;
        world.apply(&snapshot);
        let first = following.await.unwrap();
        assert!(first.snapshot && first.empty.is_none() && first.generation > 0);
        assert_eq!(first.adds.len(), 1);
    });
}

#[test]
fn who_reads_slowly_gets_the_newest() {
    const CHANGES: u32 = 800;
    let Some(mut world) = World::new() else {
        return;
    };
    let changed = |weight: u32| {
        let backends = (1..=50).map(|host| ([10, 1, 2, host], 8080).into());
        let service = Service::new(Transport::Tcp);
        backends.fold(service, |service, backend| {
            service.weighted(backend, weight)
        })
    };
    world.add(&changed(1));
    block_on(async {
        let mut changes = follow(connect(&world).await, "10.96.0.10").await;
        let mut known = Known::new();
        apply_change(&mut known, &next(&mut changes).await);
        assert_eq!(known.len(), 50);
        for weight in 2..=CHANGES {
            world.update(&changed(weight));
        }
        let mut messages = 0;
        let mut generation = 0;
        while known.values().any(|weight| *weight != CHANGES) {
            let change = next(&mut changes).await;
            assert!(change.generation > generation, "it goes on");
            generation = change.generation;
            apply_change(&mut known, &change);
            assert_eq!(known.len(), 50, "none is ever missing");
            messages += 1;
        }
        assert!(
            messages < CHANGES / 2,
            "{messages} messages were kept for it"
        );
    });
}

#[test]
fn a_change_reaches_everyone_who_follows() {
    let followers = by_length(300, 10_000);
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    let service = || Service::new(Transport::Tcp);
    world.add(&service().backend(a));
    block_on(async {
        let mut streams = Vec::new();
        for number in 0..followers {
            // As many clients have a connection each.
            let channel = if number % 100 == 0 {
                connect(&world).await
            } else {
                let (channel, _): &(Channel, _) = streams.last().unwrap();
                channel.clone()
            };
            let mut changes = follow(channel.clone(), "10.96.0.10").await;
            assert!(next(&mut changes).await.snapshot);
            streams.push((channel, changes));
        }
        let mut waiting = JoinSet::new();
        for (channel, mut changes) in streams {
            waiting.spawn(async move {
                let change = next(&mut changes).await;
                let at = Instant::now();
                drop(channel);
                let ip = change.adds[0].key.as_ref().unwrap().ip.clone();
                (at, ip, change.removes.len())
            });
        }
        let begun = Instant::now();
        world.update(&service().backend(b));
        let mut last = Duration::ZERO;
        while let Some(told) = waiting.join_next().await {
            let (at, ip, removed) = told.unwrap();
            last = last.max(at.duration_since(begun));
            assert_eq!((ip, removed), (addresses::POD_B.to_string(), 1));
        }
        println!("{followers} followers, the last after {last:?}");
        assert!(last < patience(SOON), "{last:?}");
    });
}
