//! What sockets remember goes with them.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket},
    os::fd::AsFd as _,
    time::Duration,
};

use aya::{maps::MapData, programs::Iter};
use shunt_common::{
    registry::{SOCKETS_ASKED, SOCKETS_BEFORE, SOCKETS_CONNECTED},
    socket::Connected,
};
use shunt_datapath::{
    Datapath, DatapathOptions, SocketIterator, SocketLb, SocketOptions, TableSizes,
};
use shunt_tests::{PinDir, wait_until};

use crate::{
    host_world::{mapped, service},
    stale_sockets::host_world,
    world::World,
};

/// How many sockets of a kind there are at once.
const SOCKETS: usize = 1000;

/// How soon the kernel has removed what is closed: after a grace period, and TCP after its last
/// segment.
const SOON: Duration = Duration::from_secs(10);

/// What the iterator's program writes of a socket: its cookie, and a pair.
const ENTRY: usize = size_of::<u64>() + size_of::<Connected>();

/// Counts what is in the agent's tables of socket storage, by a program of another object.
struct Counter(Vec<SocketIterator>);

impl Counter {
    fn new(pins: &PinDir) -> Self {
        let mut datapath = Datapath::load(&DatapathOptions {
            sizes: TableSizes {
                frontends: 8,
                slots: 8,
                backends: 8,
                conntrack: 64,
                affinity: 64,
                source_ranges: 64,
                fragments: 64,
                services: 64,
            },
            sockets: SocketOptions {
                mode: SocketLb::Off,
                ..SocketOptions::default()
            },
            ..DatapathOptions::default()
        })
        .unwrap();
        let program = datapath.ebpf_mut().program_mut("sock_storage").unwrap();
        let program: &mut Iter = program.try_into().unwrap();
        let program = program.fd().unwrap();
        let tables = [SOCKETS_CONNECTED, SOCKETS_BEFORE, SOCKETS_ASKED];
        let iterators = tables.map(|table| {
            let path = pins.path().join("maps").join(table.pin);
            let table = MapData::from_pin(path).unwrap();
            SocketIterator::of_map(program.as_fd(), table.fd().as_fd()).unwrap()
        });
        Self(iterators.into())
    }

    /// How many sockets have something: by their last `connect`, by the one before, and by what they
    /// asked otherwise.
    fn count(&self) -> [usize; 3] {
        let counts = self.0.iter().map(|iterator| {
            let written = iterator.read().unwrap();
            written.len() / ENTRY
        });
        counts.collect::<Vec<_>>().try_into().unwrap()
    }
}

/// Opens sockets, each by `open`, and closes them: meanwhile there must be as many as `expected` says
/// of each socket, and then none.
fn come_and_go<T: Send>(
    world: &World,
    counter: &Counter,
    expected: [usize; 3],
    open: impl Fn() -> io::Result<T> + Send + Sync,
) {
    let node = world.sandbox.node();
    let sockets: Vec<T> = node.enter(|| (0..SOCKETS).map(|_| open().unwrap()).collect());
    assert_eq!(counter.count(), expected.map(|each| each * SOCKETS));
    drop(sockets);
    wait_until("nothing is remembered", SOON, || {
        (counter.count() == [0; 3]).then_some(())
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
    let counter = Counter::new(&world.pins);
    assert_eq!(counter.count(), [0; 3]);
    let of = |a: &str, b: &str| [a, b].map(|address| address.parse::<SocketAddr>().unwrap());
    let v4 = of("10.96.0.10:80", "10.96.0.11:80");
    let v6 = of("[fd00:10:96::10]:80", "[fd00:10:96::11]:80");
    for [a, b] in [v4, v6, v4.map(mapped)] {
        come_and_go(&world, &counter, [1, 0, 0], || TcpStream::connect(a));
        come_and_go(&world, &counter, [1, 0, 0], || {
            let socket = socket(a)?;
            socket.connect(a)?;
            Ok(socket)
        });
        come_and_go(&world, &counter, [1, 1, 0], || {
            let socket = socket(a)?;
            socket.connect(a)?;
            socket.connect(b)?;
            Ok(socket)
        });
        come_and_go(&world, &counter, [1, 0, 1], || {
            let socket = socket(a)?;
            socket.send_to(b"?", a)?;
            socket.send_to(b"?", b)?;
            Ok(socket)
        });
    }
}
