//! IPv4 options of packets from outside to a backend elsewhere: each router on the way enters itself, and
//! so does this node.

use std::{
    io::Read as _,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use etherparse::{IpNumber, Ipv4Header, UdpHeader};
use shunt_tests::{Transport, addresses, patience, raw::Wire};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    dual_stack::{service, world},
    world::World,
};

/// Time that a packet may be under way.
const SOON: Duration = Duration::from_secs(5);

/// This node's addresses, towards the backend and towards the client: a router enters either.
const NODE: [Ipv4Addr; 2] = [
    Ipv4Addr::new(192, 168, 16, 10),
    Ipv4Addr::new(198, 51, 100, 1),
];

const PAYLOAD: &[u8] = b"who has been here";

/// Room for three routers, RFC 791: Record Route, and addresses with times (Internet Timestamp).
const RECORD_ROUTE: [u8; 16] = [7, 15, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const TIMESTAMP: [u8; 28] = {
    let mut option = [0; 28];
    [option[0], option[1], option[2], option[3]] = [68, 28, 5, 1];
    option
};

/// A datagram from outside.
fn datagram(to: SocketAddr, options: &[u8]) -> Vec<u8> {
    let (IpAddr::V4(from), IpAddr::V4(ip)) = (addresses::OUTSIDE, to.ip()) else {
        panic!("IPv6 has no such options");
    };
    let length = (UdpHeader::LEN + PAYLOAD.len()) as u16;
    let mut header =
        Ipv4Header::new(length, 64, IpNumber::UDP, from.octets(), ip.octets()).unwrap();
    header.options = options.try_into().unwrap();
    header.header_checksum = header.calc_header_checksum();
    let udp = UdpHeader::with_ipv4_checksum(40_000, to.port(), &header, PAYLOAD).unwrap();
    [header.to_bytes().as_slice(), &udp.to_bytes(), PAYLOAD].concat()
}

/// The options with which such a datagram gets to its pod.
fn options_at_pod(world: &World, to: SocketAddr, options: &[u8]) -> Vec<u8> {
    let pod = world.sandbox.pod("pod-d").namespace();
    let mut socket = pod.enter(|| {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).unwrap();
        socket.set_read_timeout(Some(patience(SOON))).unwrap();
        socket
    });
    world.sandbox.outside().enter(|| {
        let wire = Wire::open(to.ip()).unwrap();
        wire.send_bytes(&datagram(to, options), to.ip()).unwrap();
    });
    let mut buffer = [0; 2048];
    loop {
        let length = socket.read(&mut buffer).unwrap();
        let packet = &buffer[..length];
        if packet.ends_with(PAYLOAD) {
            let header = usize::from(packet[0] & 0xf) * 4;
            return packet[20..header].to_vec();
        }
    }
}

/// Returns the routers that have entered themselves in an option whose entries begin at `begin` and have so many bytes.
fn entered(option: &[u8], begin: usize, length: usize) -> Vec<Ipv4Addr> {
    let end = usize::from(option[2]) - 1;
    let entries = option[begin..end].chunks(length);
    let address = |entry: &[u8]| Ipv4Addr::from([entry[0], entry[1], entry[2], entry[3]]);
    entries.map(address).collect()
}

#[test]
fn this_node_enters_itself_in_options_as_a_router_does() {
    let Some(mut world) = world() else {
        return;
    };
    let service = service(&world, Transport::Udp, &["pod-d"]);
    world.add(&service);
    let backend = world.backend("pod-d");
    for (option, begin, length) in [(&RECORD_ROUTE[..], 3, 4), (&TIMESTAMP[..], 4, 8)] {
        let through = |to| entered(&options_at_pod(&world, to, option), begin, length);
        // The control: the kernel forwards it.
        let direct = through(backend);
        assert!(NODE.contains(&direct[0]), "{direct:?}");
        println!("{direct:?}");
        for target in [service.node_port(), service.external_ip()] {
            // As the first of its flow, and as another.
            for _ in 0..2 {
                assert_eq!(through(target.address()), direct, "{target:?}");
            }
        }
    }
}
