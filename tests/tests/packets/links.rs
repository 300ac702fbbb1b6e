//! Links of a packet: tagged frames, long ones, super-packets, no frame at all.

use std::net::{IpAddr, Ipv6Addr};

use etherparse::Ipv4Header;
use shunt_datapath::Datapath;

use super::{
    address::Problem,
    both_families,
    frame::{ETHERNET, OPENING, Packet, Transport, source_of},
    needs_root,
    node::{Node, Verdict},
    reports::error,
    test_run::Sum,
    world::{Backends, Family, V4, V6, cluster, in_network, node, node_with, open_transit},
};

/// An address by which the kernel takes a packet without an Ethernet header for a frame of its
/// family: a test run always looks for the header, whose type stands where these bytes do.
trait Headerless: Family {
    const SOURCE_LIKE_A_FRAMES: Self;

    /// Writes the checksum of the network header that `packet` begins with.
    fn mend_header(packet: &mut [u8]);
}

impl Headerless for V4 {
    const SOURCE_LIKE_A_FRAMES: Self = [8, 0, 0, 3];

    fn mend_header(packet: &mut [u8]) {
        let (header, _) = Ipv4Header::from_slice(packet).unwrap();
        packet[10..12].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
    }
}

impl Headerless for V6 {
    const SOURCE_LIKE_A_FRAMES: Self = Ipv6Addr::new(0xfd00, 0x10, 0x86dd, 0, 0, 0, 0, 3).octets();

    fn mend_header(_: &mut [u8]) {}
}

both_families!(packets_without_a_link_header_are_translated);
fn packets_without_a_link_header_are_translated<A: Headerless>()
where
    IpAddr: From<A>,
{
    let here = A::SOURCE_LIKE_A_FRAMES;
    let mut node = node_with(
        |options| options.pod_cidrs.push("fd00:10:86dd::/48".parse().unwrap()),
        Backends::Here,
    );
    let run = |node: &mut Node, program, packet: &Packet<A>| {
        let ran = node.run_in(program, &packet.packet(), &[], Sum::Unknown);
        ran.unwrap().0
    };
    for (port, transport) in (40_000..).zip(OPENING) {
        // To the backend and back to the client.
        let request = Packet::new(transport, (here, port), (A::CLUSTER_IP, 80));
        let at_backend = request.to((A::LOCAL, 8080));
        assert_eq!(
            run(&mut node, Datapath::INGRESS_L3, &request),
            Verdict::Pass(at_backend.packet())
        );
    }
    let local = IpAddr::from(A::LOCAL).to_string();
    let moved = cluster(Backends::Here).replace(&local, &IpAddr::from(here).to_string());
    node.apply(&moved);
    for (port, transport) in (50_000..).zip(OPENING) {
        let request = Packet::new(transport, (A::POD, port), (A::CLUSTER_IP, 80));
        let at_backend = request.to((here, 8080));
        assert_eq!(
            node.ingress(&request.frame()),
            Verdict::Pass(at_backend.frame())
        );
        let reply = at_backend.answer();
        assert_eq!(
            run(&mut node, Datapath::EGRESS_L3, &reply),
            Verdict::Pass(reply.from((A::CLUSTER_IP, 80)).packet())
        );

        // A pod that reaches itself.
        let pod = (here, port);
        let request = Packet::new(transport, pod, (A::CLUSTER_IP, 80));
        let at_pod = request
            .from((A::HAIRPIN, port))
            .to((here, 8080))
            .forwarded();
        assert_eq!(
            run(&mut node, Datapath::INGRESS_L3, &request),
            Verdict::Redirect(at_pod.packet())
        );
        let reply = at_pod.answer();
        let restored = reply.from((A::CLUSTER_IP, 80)).to(pod).forwarded();
        assert_eq!(
            run(&mut node, Datapath::INGRESS_L3, &reply),
            Verdict::Redirect(restored.packet())
        );
    }
}

#[test]
fn packets_without_a_link_header_get_one_where_they_are_forwarded() {
    needs_root!();
    in_network(|| {
        let mut node = node(Backends::Elsewhere);
        let client = (V4::SOURCE_LIKE_A_FRAMES, 40_000);
        let request = Packet::new(Transport::Udp, client, (V4::NODE, 30080));
        let ran = node.run_in(Datapath::INGRESS_L3, &request.packet(), &[], Sum::Unknown);
        let Verdict::Redirect(sent) = ran.unwrap().0 else {
            panic!("not forwarded");
        };
        // The kernel writes the header where it sends the packet on.
        let header = [0; ETHERNET];
        let at_backend = request.from(source_of(&sent)).to((V4::REMOTE, 8080));
        let expected = [&header, at_backend.forwarded().packet().as_slice()].concat();
        assert_eq!(sent, expected);
    });
}

#[test]
fn frames_with_tags_of_their_own_pass_untouched() {
    needs_root!();
    let mut node = node(Backends::Here);
    tagged::<V4>(&mut node);
    tagged::<V6>(&mut node);
    assert!(node.counters().is_empty(), "{:?}", node.counters());
}

fn tagged<A: Family>(node: &mut Node) {
    // IEEE 802.1Q and 802.1ad: one tag, two, and a priority alone.
    let tags: [&[u8]; 4] = [
        &[0x81, 0, 0, 7],
        &[0x88, 0xa8, 0, 7],
        &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8],
        &[0x81, 0, 0xe0, 0],
    ];
    for transport in OPENING {
        for tag in tags {
            let plain = Packet::new(transport, (A::POD, 40_000), (A::CLUSTER_IP, 80)).frame();
            let (stations, rest) = plain.split_at(12);
            let frame = [stations, tag, rest].concat();
            assert_eq!(node.ingress(&frame), Verdict::Pass(frame.clone()));
            assert_eq!(node.egress(&frame), Verdict::Pass(frame.clone()));
        }
    }
}

#[test]
fn long_packets_are_translated() {
    needs_root!();
    let mut node = node(Backends::Here);
    long::<V4>(&mut node);
    long::<V6>(&mut node);
}

fn long<A: Family>(node: &mut Node) {
    // As long as a test run takes: the page that it has for them, less what the kernel needs.
    for transport in OPENING {
        let request = Packet::new(transport, (A::POD, 40_000), (A::CLUSTER_IP, 80));
        for length in [1500, 2000, 3000, 3300] {
            let request = request.of_payload(length);
            let at_backend = request.to((A::LOCAL, 8080));
            assert_eq!(
                node.ingress(&request.frame()),
                Verdict::Pass(at_backend.frame())
            );
        }
    }
}

/// A `struct __sk_buff` of a super-packet whose segments carry this many bytes each.
fn segments_of(bytes: u16) -> Vec<u8> {
    // Of linux/bpf.h: `gso_segs` is at 164, `gso_size` at 176.
    let mut context = vec![0; 192];
    context[164..168].copy_from_slice(&2_u32.to_ne_bytes());
    context[176..180].copy_from_slice(&u32::from(bytes).to_ne_bytes());
    context
}

both_families!(a_super_packet_may_be_longer_than_its_way_takes_if_its_segments_are_not in in_network);
fn a_super_packet_may_be_longer_than_its_way_takes_if_its_segments_are_not<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    let first = Packet::new(Transport::TcpSyn, (A::OUTSIDER, 40_000), (A::NODE, 30080));
    let at_backend = open_transit(&mut node, &first);
    let seen_as = at_backend.source;
    node.ingress(&at_backend.answer().frame());
    let request = first.with(Transport::TcpAck).of_payload(3000);
    let reply = request.from(seen_as).to((A::REMOTE, 8080)).answer();
    let ways = [
        (&request, A::BACKEND_MTU, seen_as, (A::REMOTE, 8080)),
        (&reply, A::CLIENT_MTU, first.destination, first.source),
    ];
    for (packet, mtu, from, to) in ways {
        let segment = mtu - packet.headers_length() as u16;
        let mut run = |segment: u16, sum| {
            let context = segments_of(segment);
            let ran = node.run_in(Datapath::INGRESS, &packet.frame(), &context, sum);
            ran.unwrap().0
        };
        let translated = packet.from(from).to(to).forwarded();
        assert_eq!(
            run(segment, Sum::Known),
            Verdict::Redirect(translated.frame())
        );
        assert_eq!(
            run(segment + 1, Sum::Unknown),
            Verdict::Redirect(error(packet, Problem::TooLong { mtu })),
            "segments that are too long"
        );
    }
}

#[test]
fn a_super_packet_longer_than_its_header_can_say_is_translated() {
    needs_root!();
    let mut node = node(Backends::Here);
    unsaid::<V4>(&mut node, 16);
    unsaid::<V6>(&mut node, 18);
    assert_eq!(node.counters()["pass_truncated"], 2);
}

fn unsaid<A: Headerless>(node: &mut Node, length_field: usize) {
    let request = Packet::new(Transport::TcpSyn, (A::POD, 40_000), (A::CLUSTER_IP, 80));
    let of_no_length = |packet: &Packet<A>| {
        let mut frame = packet.of_payload(2000).frame();
        frame[length_field..length_field + 2].fill(0);
        A::mend_header(&mut frame[ETHERNET..]);
        frame
    };
    let (came, went) = (
        of_no_length(&request),
        of_no_length(&request.to((A::LOCAL, 8080))),
    );
    let ran = node.run_in(Datapath::INGRESS, &came, &segments_of(1000), Sum::Known);
    assert_eq!(ran.unwrap().0, Verdict::Pass(went));
    assert_eq!(
        node.ingress(&came),
        Verdict::Pass(came.clone()),
        "of no other packet it is a length"
    );
}
