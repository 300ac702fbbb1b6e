//! Links other than plain Ethernet: without a header of their own, and with tags.

use std::{
    io, mem,
    net::{IpAddr, SocketAddr},
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    time::Duration,
};

use etherparse::{PacketBuilder, PacketHeaders, TransportHeader};
use nix::net::if_::if_nametoindex;
use serde_json::json;
use shunt_tests::{Namespace, Transport, addresses, wait_until};

use crate::{
    dual_stack::{Family, service, world},
    interfaces::shown,
    service::Service,
    tun::Tun,
    world::World,
};

/// Address of the client behind the tun interface.
const CLIENT: &str = "10.9.9.2";
const CLIENT_PORT: u16 = 50_000;

/// Time that a frame may take.
const SOON: Duration = Duration::from_secs(4);

/// A world whose node has a tun interface with a client behind it.
fn world_with_tun() -> Option<(World, Tun)> {
    let mut world = world()?;
    let tun = Tun::new(world.sandbox.node(), "tun0");
    world
        .sandbox
        .node()
        .configure(&format!(
            "address add 10.9.9.1/24 dev tun0\n\
             address add {}/64 dev tun0 nodad\n\
             link set tun0 up\n",
            addresses::v6("10.9.9.1".parse().unwrap())
        ))
        .unwrap();
    let interfaces = ["eth0", "eth1", "pod-a", "pod-b", "pod-c", "tun0"];
    world.apply(
        &json!({ "event": "UpdateLocalFrontendIfs", "old": [], "new": interfaces }).to_string(),
    );
    wait_until("the tun interface has its programs", SOON, || {
        (shown(&world, "tun0")?["state"] == "attached").then_some(())
    })
    .unwrap();
    Some((world, tun))
}

/// A UDP packet without a link header.
fn request(from: IpAddr, to: SocketAddr) -> Vec<u8> {
    let builder = match (from, to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
        (from, to) => panic!("from {from} to {to}"),
    };
    let mut packet = Vec::new();
    builder
        .udp(CLIENT_PORT, to.port())
        .write(&mut packet, b"a request")
        .unwrap();
    packet
}

/// Returns whether the packet is a UDP packet from `from` to the client, with a right checksum.
fn is_answer(packet: &[u8], family: Family, from: SocketAddr) -> bool {
    let client = family.of(CLIENT.parse().unwrap());
    let Ok(headers) = PacketHeaders::from_ip_slice(packet) else {
        return false;
    };
    let (Some(net), Some(TransportHeader::Udp(udp))) = (headers.net, headers.transport) else {
        return false;
    };
    let payload = headers.payload.slice();
    let (source, destination, checksum) = match net {
        etherparse::NetHeaders::Ipv4(ip, _) => (
            IpAddr::from(ip.source),
            IpAddr::from(ip.destination),
            udp.calc_checksum_ipv4(&ip, payload),
        ),
        etherparse::NetHeaders::Ipv6(ip, _) => (
            IpAddr::from(ip.source),
            IpAddr::from(ip.destination),
            udp.calc_checksum_ipv6(&ip, payload),
        ),
        etherparse::NetHeaders::Arp(_) => return false,
    };
    let ports = (udp.source_port, udp.destination_port);
    if (source, destination, ports) != (from.ip(), client, (from.port(), CLIENT_PORT)) {
        return false;
    }
    assert_eq!(udp.checksum, checksum.unwrap(), "{packet:02x?}");
    true
}

#[test]
fn clients_behind_an_interface_without_link_header_are_served() {
    let Some((mut world, tun)) = world_with_tun() else {
        return;
    };
    for pod in ["pod-a", "pod-d"] {
        let service = service(&world, Transport::Udp, &[pod]);
        world.update(&service);
        for family in Family::BOTH {
            let client = family.of(CLIENT.parse().unwrap());
            for target in [service.cluster_ip(), service.node_port()] {
                let frontend = family.target(target).address();
                for _ in 0..3 {
                    tun.send(&request(client, frontend));
                    tun.receive(|packet| is_answer(packet, family, frontend));
                }
            }
        }
    }
}

#[test]
fn clients_behind_an_interface_without_link_header_are_told_that_nobody_is_there() {
    let Some((mut world, tun)) = world_with_tun() else {
        return;
    };
    let service = Service::new(Transport::Udp).dual_stack();
    world.add(&service);
    for family in Family::BOTH {
        let frontend = family.target(service.cluster_ip()).address();
        let sent = request(family.of(CLIENT.parse().unwrap()), frontend);
        tun.send(&sent);
        let (kind, headers) = match family {
            Family::V4 => ([3, 3], 20),
            Family::V6 => ([1, 4], 40),
        };
        tun.receive(|packet| {
            packet.len() >= headers + 8 + headers + 8
                && packet[headers..][..2] == kind
                && packet[headers + 8..][..headers + 8] == sent[..headers + 8]
        });
    }
}

#[test]
fn a_frame_of_a_vlan_is_left_alone_and_one_with_a_priority_is_not() {
    let Some(mut world) = world() else {
        return;
    };
    let service = service(&world, Transport::Udp, &["pod-a"]);
    world.add(&service);
    let pod = world.client_pod();
    let station = |host: &Namespace, interface: &str| {
        let shown = host.query(&format!("link show dev {interface}\n")).unwrap();
        let mut words = shown.split_whitespace();
        let address = words
            .by_ref()
            .skip_while(|word| *word != "link/ether")
            .nth(1);
        let octets = address
            .unwrap()
            .split(':')
            .map(|octet| u8::from_str_radix(octet, 16).unwrap());
        octets.collect::<Vec<u8>>()
    };
    let addresses = [station(world.sandbox.node(), "pod-c"), station(pod, "eth0")].concat();
    for family in Family::BOTH {
        let frontend = family.target(service.cluster_ip()).address();
        let packet = request(family.of(addresses::POD_C), frontend);
        let ether_type: &[u8] = match family {
            Family::V4 => &[8, 0],
            Family::V6 => &[0x86, 0xdd],
        };
        // TPID and TCI, IEEE 802.1Q section 9.
        for (tags, is_ours) in [
            (&[][..], true),
            (&[0x81, 0, 0, 5], false),
            (&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5], false),
            (&[0x81, 0, 0xa0, 0], true),
        ] {
            let frame = [&addresses[..], tags, ether_type, &packet].concat();
            let before = requests(&world);
            pod.enter(|| send_frame("eth0", &frame));
            // A wait for a plain one after it is a wait for it, too.
            let plain = [&addresses[..], ether_type, &packet].concat();
            pod.enter(|| send_frame("eth0", &plain));
            wait_until("the plain frame is counted", SOON, || {
                (requests(&world) > before).then_some(())
            })
            .unwrap();
            let counted = requests(&world) - before;
            assert_eq!(counted, 1 + u64::from(is_ours), "{family:?}, {tags:02x?}");
        }
    }
}

/// Returns the number of packets sent on to backends.
fn requests(world: &World) -> u64 {
    let status = world.shunt(&["status", "-o", "json"]).json();
    status["counters"]["request"].as_u64().unwrap()
}

/// Sends a whole frame by an interface of the current thread's namespace (packet(7)).
fn send_frame(interface: &str, frame: &[u8]) {
    // SAFETY: the call takes numbers.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
    assert!(socket >= 0, "{}", io::Error::last_os_error());
    // SAFETY: it was just opened.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: all bits 0 are an address.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = if_nametoindex(interface).unwrap().cast_signed();
    // SAFETY: the frame and the address have the lengths that are passed.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            0,
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as u32,
        )
    };
    assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
}
