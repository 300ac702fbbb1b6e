//! Clients that take the places of the HTTP listeners.

use std::{
    io::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use shunt_tests::{addresses, by_length, http_get, make_room_for_files};

use tonic::transport::Endpoint;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::world::World;

/// More than a listener has places.
const CROWD: usize = 1500;
const LARGE_CROWD: usize = 4000;

/// The flags of an agent whose listeners take connections of other hosts.
const OPEN: [&str; 4] = [
    "--healthz-bind-address",
    "0.0.0.0",
    "--metrics-bind-address",
    "0.0.0.0",
];

/// Time in which a connection is made.
const SOON: Duration = Duration::from_secs(5);

/// Connects again and again, and sends this much of a request by each. What has been refused or cut is no matter.
fn crowd(at: SocketAddr, size: usize, begin: &[u8]) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect_timeout(&at, SOON).ok()?;
        stream.write_all(begin).ok()?;
        Some(stream)
    };
    (0..size).filter_map(connect).collect()
}

/// The preface of HTTP/2, with settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Returns the health of linkerd's API at this address, which a new connection asks for.
fn linkerds_health(at: SocketAddr) -> ServingStatus {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{at}")).unwrap();
        let channel = endpoint.connect().await.unwrap();
        let mut health = HealthClient::new(channel);
        let asked = health.check(HealthCheckRequest::default()).await;
        asked.unwrap().into_inner().status()
    })
}

#[test]
fn a_crowd_of_one_peer_keeps_no_proxy_from_linkerds_api() {
    let flags = ["--linkerd-api", "[::]:8086", "--linkerd-api-remote"];
    let Some(world) = World::with_flags(&flags) else {
        return;
    };
    let size = by_length(CROWD, LARGE_CROWD);
    make_room_for_files(size).unwrap();
    let node = world.sandbox.node();
    let pod = world.sandbox.pod("pod-a").namespace();
    let outside = world.sandbox.outside();
    for address in [addresses::NODE, addresses::v6(addresses::NODE)] {
        let at = SocketAddr::new(address, 8086);
        // Silent, slow, and without a call.
        for begin in [&[][..], &PREFACE[..10], PREFACE] {
            let crowded = pod.enter(|| crowd(at, size, begin));
            assert!(crowded.len() > size / 2, "{at}: {}", crowded.len());
            for ip in [
                IpAddr::from(Ipv4Addr::LOCALHOST),
                Ipv6Addr::LOCALHOST.into(),
            ] {
                let probe = SocketAddr::new(ip, 8086);
                let health = node.enter(|| linkerds_health(probe));
                assert_eq!(health, ServingStatus::Serving, "{at} {begin:?}");
            }
            let health = outside.enter(|| linkerds_health(at));
            assert_eq!(health, ServingStatus::Serving, "{at} {begin:?}");
            drop(crowded);
        }
    }
}

#[test]
fn a_crowd_of_one_peer_keeps_nobody_from_the_listeners() {
    let Some(world) = World::with_flags(&OPEN) else {
        return;
    };
    let size = by_length(CROWD, LARGE_CROWD);
    make_room_for_files(size).unwrap();
    let node = world.sandbox.node();
    let pod = world.sandbox.pod("pod-a").namespace();
    let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let v6 = addresses::v6(addresses::NODE);
    for (port, path) in [(10_256, "/livez"), (10_249, "/metrics")] {
        for address in [addresses::NODE, v6] {
            for begin in ["", "GET / HTTP/1.1\r\nhost: a"] {
                let at = SocketAddr::new(address, port);
                let crowded = pod.enter(|| crowd(at, size, begin.as_bytes()));
                assert!(crowded.len() > size / 2, "{at}: {}", crowded.len());
                for _ in 0..5 {
                    for ip in loopback {
                        let probe = SocketAddr::new(ip, port);
                        let answer = node.enter(|| http_get(probe, path, &[])).unwrap();
                        assert_eq!(answer.status, 200, "{begin:?}");
                    }
                    let outside = world.sandbox.outside();
                    let answer = outside.enter(|| http_get(at, path, &[])).unwrap();
                    assert_eq!(answer.status, 200, "{begin:?}");
                    thread::sleep(Duration::from_millis(20));
                }
                drop(crowded);
            }
        }
    }
    let metrics = world.get(Ipv4Addr::LOCALHOST, 10_249, "/metrics").body;
    let evicted = metrics.lines().find_map(|line| {
        let count = line.strip_prefix("shunt_connections_evicted_total ")?;
        count.parse::<f64>().ok()
    });
    assert!(evicted.unwrap() >= size as f64, "{evicted:?}");
}
