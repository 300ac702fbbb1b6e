use std::{fs::File, os::fd::AsFd as _};

use bolero::check;

use super::*;

fn id(destination: Ipv6Addr) -> SocketId {
    SocketId {
        source_port: 40_000u16.to_be(),
        destination_port: 53u16.to_be(),
        source: [9; 16],
        destination: destination.octets(),
        interface: 0,
        cookie: [5, 6],
    }
}

/// A socket, as the kernel lists it, with an attribute.
fn reply(family: i32, id: SocketId) -> Vec<u8> {
    reply_with(family, id, &[])
}

/// The same, with further attributes.
fn reply_with(family: i32, id: SocketId, further: &[u8]) -> Vec<u8> {
    let reply = Reply {
        family: family as u8,
        state: 1,
        id,
        inode: 7,
        ..Reply::zeroed()
    };
    // `INET_DIAG_SHUTDOWN`, padded.
    let attribute = [5, 0, 8, 0, 0, 0, 0, 0];
    let payload = [bytemuck::bytes_of(&reply), &attribute, further].concat();
    message(SOCK_DIAG_BY_FAMILY, 0, 3, &payload)
}

fn v4_in_front(address: Ipv4Addr) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets[..4].copy_from_slice(&address.octets());
    octets.into()
}

#[test]
fn a_socket_has_its_peer() {
    let v4 = Ipv4Addr::new(10, 1, 1, 3);
    for (family, destination, peer) in [
        (libc::AF_INET, v4_in_front(v4), IpAddr::V4(v4)),
        (libc::AF_INET6, v4.to_ipv6_mapped(), IpAddr::V4(v4)),
        (
            libc::AF_INET6,
            Ipv6Addr::LOCALHOST,
            Ipv6Addr::LOCALHOST.into(),
        ),
    ] {
        let id = id(destination);
        let received = [
            reply(family, id),
            message(NLMSG_DONE, 0, 3, &0i32.to_ne_bytes()),
        ];
        let found: Vec<_> = answers(&received.concat()).collect();
        let socket = Socket {
            id,
            peer: SocketAddr::new(peer, 53),
            inode: 7,
            cgroup: None,
            storages: Vec::new(),
        };
        assert_eq!(
            found,
            [Ok(Answer::Socket(socket)), Ok(Answer::Done(Ok(())))],
            "{peer}"
        );
    }
}

#[test]
fn an_outcome_belongs_to_its_request() {
    let refused = message(NLMSG_ERROR, 0, 8, &(-libc::ENOENT).to_ne_bytes());
    let done = message(NLMSG_ERROR, 0, 9, &0i32.to_ne_bytes());
    let found: Vec<_> = answers(&[refused, done].concat()).collect();
    assert_eq!(
        found,
        [
            Ok(Answer::Outcome(8, Err(Errno::ENOENT))),
            Ok(Answer::Outcome(9, Ok(())))
        ]
    );
}

#[test]
fn requests_are_laid_out_as_the_kernel_reads_them() {
    let kind = Kind {
        family: libc::AF_INET6 as u8,
        protocol: libc::IPPROTO_UDP as u8,
    };
    let dump = dump_request(kind, 1 << 1, &[], 5);
    assert_eq!(dump.len(), 16 + 56, "header, request");
    let header = NetlinkBuffer::new_checked(dump.as_slice()).unwrap();
    assert_eq!(
        (
            header.message_type(),
            header.flags(),
            header.sequence_number()
        ),
        (20, 0x301, 5)
    );
    assert_eq!(&dump[16..24], &[10, 17, 0, 0, 2, 0, 0, 0], "little endian");

    let id = id(Ipv6Addr::LOCALHOST);
    let destroy = destroy_request(kind, id, 6);
    let header = NetlinkBuffer::new_checked(destroy.as_slice()).unwrap();
    assert_eq!((header.message_type(), header.flags()), (21, 0x5));
    assert_eq!(&destroy[16 + 8..], bytemuck::bytes_of(&id));
}

/// An attribute, as `linux/netlink.h` has it.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = (4 + value.len()) as u16;
    let mut attribute = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    attribute.extend(value);
    attribute.resize(attribute.len().next_multiple_of(ALIGNMENT), 0);
    attribute
}

/// Returns the attribute with a socket's values in these tables, as the kernel sends it.
fn storages_of(values: &[&[u8]]) -> Vec<u8> {
    const NESTED: u16 = 1 << 15;
    let tables = values.iter().zip(1u32..).map(|(value, number)| {
        let fields = [attribute(2, &number.to_ne_bytes()), attribute(3, value)];
        attribute(1 | NESTED, &fields.concat())
    });
    attribute(0x14 | NESTED, &tables.collect::<Vec<_>>().concat())
}

#[test]
fn tables_are_named_by_their_descriptors() {
    let kind = kinds(libc::IPPROTO_TCP)[0];
    let (one, other) = (File::open("/dev/null").unwrap(), File::open("/").unwrap());
    let tables = [one.as_fd(), other.as_fd()];
    let dump = dump_request(kind, 1 << 1, &tables, 5);
    let nested = tables.map(|table| attribute(1, &table.as_raw_fd().to_ne_bytes()));
    assert_eq!(&dump[16 + 56..], attribute(2, &nested.concat()));
    let header = NetlinkBuffer::new_checked(dump.as_slice()).unwrap();
    assert_eq!(header.length() as usize, dump.len());
}

#[test]
fn a_socket_has_what_is_in_each_table() {
    let connected = [1, 2].map(|word| Connected([word; _]));
    let values = connected.each_ref().map(bytemuck::bytes_of);
    let read = |values: &[&[u8]]| {
        let reply = reply_with(
            libc::AF_INET,
            id(Ipv6Addr::UNSPECIFIED),
            &storages_of(values),
        );
        let answers: Vec<_> = answers(&reply).collect();
        let [answer] = answers.try_into().unwrap();
        answer.map(|answer| match answer {
            Answer::Socket(socket) => socket.storages,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(read(&[]), Ok(vec![]));
    assert_eq!(read(&values[1..]), Ok(vec![connected[1]]));
    assert_eq!(read(&values), Ok(connected.to_vec()));
    // Of another table.
    assert_eq!(read(&[values[0], &values[1][1..]]), Err(Malformed));
}

#[test]
fn a_socket_has_the_number_of_its_cgroup() {
    let read = |value: &[u8]| {
        let id = id(Ipv6Addr::UNSPECIFIED);
        let reply = reply_with(libc::AF_INET, id, &attribute(CGROUP, value));
        match answers(&reply).next().unwrap()? {
            Answer::Socket(socket) => Ok(socket.cgroup),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        read(&0x1_0000_0002u64.to_ne_bytes()),
        Ok(Some(0x1_0000_0002))
    );
    assert_eq!(read(&[1; 4]), Err(Malformed));
}

#[test]
fn what_is_cut_off_is_an_error_and_nothing_else() {
    let whole = reply(libc::AF_INET, id(Ipv6Addr::UNSPECIFIED));
    for length in 1..whole.len() {
        let found: Vec<_> = answers(&whole[..length]).collect();
        assert_eq!(found, [Err(Malformed)], "{length} bytes");
    }
    // The message ends early, and its own length shows that.
    for length in HEADER..HEADER + size_of::<Reply>() {
        let mut cut = whole[..length].to_vec();
        cut[..4].copy_from_slice(&(length as u32).to_ne_bytes());
        let found: Vec<_> = answers(&cut).collect();
        assert_eq!(found, [Err(Malformed)], "{length} bytes, by the header");
    }
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    check!().for_each(|bytes| {
        let answered = answers(bytes).count();
        assert!(answered <= bytes.len() / HEADER + 1);
    });
}

#[test]
fn a_damaged_answer_is_read_without_a_panic() {
    let whole = [
        reply(libc::AF_INET6, id(Ipv6Addr::LOCALHOST)),
        reply_with(
            libc::AF_INET,
            id(Ipv6Addr::UNSPECIFIED),
            &storages_of(&[[7; size_of::<Connected>()].as_slice(); 2]),
        ),
    ]
    .concat();
    check!().with_type::<Vec<(u16, u8)>>().for_each(|damages| {
        let mut bytes = whole.clone();
        for (place, byte) in damages {
            let place = usize::from(*place) % bytes.len();
            bytes[place] = *byte;
        }
        assert!(answers(&bytes).count() <= bytes.len() / HEADER + 1);
    });
}
