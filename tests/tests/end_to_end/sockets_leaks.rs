//! The state of sockets goes with them.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket},
    os::fd::AsRawFd,
    path::Path,
    time::Duration,
};

use aya::{
    Pod,
    maps::{Map, MapData, MapError, SkStorage},
};
use shunt_common::{
    registry::{self, SOCKETS_ASKED, SOCKETS_BEFORE, SOCKETS_CONNECTED},
    socket::{PAIR_WORDS, PAIRS},
};
use shunt_tests::{Namespace, PinDir, wait_until};

use crate::{
    host_world::{mapped, service},
    stale_sockets::host_world,
    world::World,
};

/// Number of sockets of a kind that there are at once.
const SOCKETS: usize = 1000;

/// The time in which the kernel removes closed sockets: those of TCP after the last segment.
const SOON: Duration = Duration::from_secs(10);

/// The number of words that the pairs of a socket take that is not connected.
const ASKED_WORDS: usize = 1 + PAIRS * PAIR_WORDS;

/// The agent's tables of socket storage.
struct Tables {
    connected: SkStorage<MapData, [u64; PAIR_WORDS]>,
    before: SkStorage<MapData, [u64; PAIR_WORDS]>,
    asked: SkStorage<MapData, [u64; ASKED_WORDS]>,
}

impl Tables {
    fn open(pins: &PinDir) -> Self {
        let folder = pins.path().join("maps");
        Self {
            connected: table(&folder, SOCKETS_CONNECTED),
            before: table(&folder, SOCKETS_BEFORE),
            asked: table(&folder, SOCKETS_ASKED),
        }
    }

    /// Counts the sockets that have an entry: of their last `connect`, of the one before, and of
    /// their other calls.
    fn count(&self, sockets: &[impl AsRawFd]) -> [usize; 3] {
        let Self {
            connected,
            before,
            asked,
        } = self;
        [
            count(connected, sockets),
            count(before, sockets),
            count(asked, sockets),
        ]
    }
}

fn table<V: Pod>(folder: &Path, map: registry::Map) -> SkStorage<MapData, V> {
    let table = MapData::from_pin(folder.join(map.pin)).unwrap();
    let table = Map::from_map_data(table).unwrap();
    table.try_into().unwrap()
}

fn count<V: Pod>(table: &SkStorage<MapData, V>, sockets: &[impl AsRawFd]) -> usize {
    let remember = sockets.iter().filter(|socket| match table.get(*socket, 0) {
        Ok(_) => true,
        Err(MapError::KeyNotFound) => false,
        Err(error) => panic!("what a socket has is not read: {error}"),
    });
    remember.count()
}

/// Returns the number of sockets of any kind in the namespace. The kernel counts a socket until nothing refers
/// to it any more, and frees its storage then (`__sk_free` in `net/core/sock.c`). A table of socket storage
/// has no other entry.
fn used(namespace: &Namespace) -> usize {
    let counts = namespace.enter(|| fs::read_to_string("/proc/thread-self/net/sockstat").unwrap());
    let used = counts
        .lines()
        .find_map(|line| line.strip_prefix("sockets: used "));
    used.unwrap().trim().parse().unwrap()
}

/// Opens sockets, each by `open`, and closes them. Meanwhile each must have the entries in `expected`;
/// then none may be left.
fn come_and_go<T: AsRawFd + Send>(
    world: &World,
    tables: &Tables,
    expected: [usize; 3],
    open: impl Fn() -> io::Result<T> + Send + Sync,
) {
    let node = world.sandbox.node();
    let before = used(node);
    let sockets: Vec<T> = node.enter(|| (0..SOCKETS).map(|_| open().unwrap()).collect());
    assert_eq!(tables.count(&sockets), expected.map(|each| each * SOCKETS));
    assert!(used(node) >= SOCKETS, "every socket is counted");
    drop(sockets);
    wait_until("no socket is left", SOON, || {
        (used(node) <= before).then_some(())
    })
    .unwrap();
}

/// A UDP socket that may have any address of this one's family.
fn socket(target: SocketAddr) -> io::Result<UdpSocket> {
    let any = match target {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    UdpSocket::bind((any, 0))
}

#[test]
fn nothing_is_left_of_sockets_that_were_closed() {
    let Some(mut world) = host_world(&[]) else {
        return;
    };
    for (name, ip, pod) in [("a", "10.96.0.10", "pod-a"), ("b", "10.96.0.11", "pod-b")] {
        let backends = [world.backend(pod), world.backend_v6(pod)];
        let service = service(name, ip, &backends);
        let event = serde_json::json!({ "event": "AddService", "service": service });
        world.apply(&event.to_string());
    }
    let tables = Tables::open(&world.pins);
    let of = |a: &str, b: &str| [a, b].map(|address| address.parse::<SocketAddr>().unwrap());
    let v4 = of("10.96.0.10:80", "10.96.0.11:80");
    let v6 = of("[fd00:10:96::10]:80", "[fd00:10:96::11]:80");
    for [a, b] in [v4, v6, v4.map(mapped)] {
        come_and_go(&world, &tables, [1, 0, 0], || TcpStream::connect(a));
        come_and_go(&world, &tables, [1, 0, 0], || {
            let socket = socket(a)?;
            socket.connect(a)?;
            Ok(socket)
        });
        come_and_go(&world, &tables, [1, 1, 0], || {
            let socket = socket(a)?;
            socket.connect(a)?;
            socket.connect(b)?;
            Ok(socket)
        });
        come_and_go(&world, &tables, [1, 0, 1], || {
            let socket = socket(a)?;
            socket.send_to(b"?", a)?;
            socket.send_to(b"?", b)?;
            Ok(socket)
        });
    }
}
