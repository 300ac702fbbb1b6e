//! Shapes of packets, and damage to frames.

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::{
    cluster::Protocol,
    envelope::Enclosed,
    model::Hook,
    mutation::{FIELDS, Mutation},
    packet::{Extension, Flags, Report, Shape},
};

/// Everything of a packet but its ends.
pub(crate) fn shape() -> impl Strategy<Value = Shape> {
    let payload = prop_oneof![
        6 => vec(any::<u8>(), 0..8),
        1 => vec(any::<u8>(), 8..200),
        1 => vec(select(vec![0u8, 0xff]), 0..8),
    ];
    let transport = (
        select(&Protocol::ALL[..]),
        (
            flags(),
            select(vec![1000u32, 1000, 2000, 2000, 1001]),
            select(vec![1001u32, 1001, 2001, 0]),
        ),
        // INIT, DATA, INIT ACK, ABORT, SHUTDOWN ACK, SHUTDOWN COMPLETE, and any.
        prop_oneof![6 => Just(1u8), 4 => Just(0), 2 => select(vec![2u8, 6, 8, 14]), 1 => any::<u8>()],
        prop_oneof![4 => Just(true), 1 => Just(false)],
        (
            mostly_zero(10),
            option::weighted(
                0.3,
                (0..10u8, prop_oneof![8 => 1300..1500u16, 1 => 0..60u16]),
            ),
        ),
        payload,
    );
    let network = (
        mostly_zero(10),
        extensions(),
        prop_oneof![40 => Just(64u8), 10 => 2u8.., 1 => 0..2u8],
        prop_oneof![1 => 0..4u16, 1 => any::<u16>()],
        mostly_zero(18),
        prop_oneof![6 => Just(None), 1 => report().prop_map(Some)],
        (class(), option::weighted(0.25, envelope())),
    );
    (transport, network).prop_map(|(transport, network)| {
        let (protocol, (flags, sequence, acknowledged), chunk, checksum, options, payload) =
            transport;
        let (tcp_options, announced) = options;
        let (ip_options, extensions, hop_limit, identification, padding, report, outside) = network;
        let (class, envelope) = outside;
        Shape {
            protocol,
            flags,
            sequence,
            acknowledged,
            chunk,
            checksum,
            ip_options,
            extensions,
            tcp_options,
            announced,
            class,
            hop_limit,
            identification,
            payload,
            padding,
            report,
            envelope,
        }
    })
}

/// A service class, with any mark of congestion.
fn class() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(0u8), 3 => 0..4u8, 1 => any::<u8>()]
}

fn envelope() -> impl Strategy<Value = Enclosed> {
    let from = prop_oneof![8 => Just(0u8), 4 => 1..3u8, 2 => 4..6u8, 1 => 3..8u8];
    let to = prop_oneof![12 => Just(0u8), 1 => Just(1)];
    let twice = prop_oneof![12 => Just(false), 1 => Just(true)];
    // As first nodes have them, as those that hand on, and between the two.
    let hops = prop_oneof![6 => Just(64), 2 => Just(255), 1 => 126..130u8];
    (from, to, class(), hops, twice).prop_map(|(from, to, class, hops, twice)| Enclosed {
        from,
        to,
        class,
        hops,
        twice,
    })
}

fn mostly_zero(most: usize) -> impl Strategy<Value = usize> {
    prop_oneof![8 => Just(0), 1 => 1..=most]
}

fn flags() -> impl Strategy<Value = Flags> {
    let flags = |syn, ack, fin, rst| Flags { syn, ack, fin, rst };
    prop_oneof![
        8 => Just(flags(true, false, false, false)),
        8 => Just(flags(false, true, false, false)),
        4 => Just(flags(true, true, false, false)),
        2 => Just(flags(false, true, true, false)),
        1 => Just(flags(false, false, false, true)),
        1 => any::<[bool; 4]>().prop_map(move |[syn, ack, fin, rst]| flags(syn, ack, fin, rst)),
    ]
}

/// Some short ones, and some about the bounds: 8 headers, 256 bytes.
fn extensions() -> impl Strategy<Value = Vec<Extension>> {
    let kind = || select(vec![0u8, 43, 51, 60, 60, 44]);
    let extension = move |longest: u8| {
        let segments_left = prop_oneof![9 => Just(0u8), 1 => 1..3u8];
        (kind(), 0..=longest, segments_left).prop_map(|(kind, length, segments_left)| Extension {
            kind,
            length,
            segments_left,
        })
    };
    prop_oneof![
        16 => Just(vec![]),
        4 => vec(extension(2), 1..4),
        1 => vec(extension(1), 7..10),
        1 => vec(extension(31), 1..4),
        1 => (28..33u8, vec(extension(0), 0..3)).prop_map(|(length, mut rest)| {
            rest.insert(0, Extension { kind: 60, length, segments_left: 0 });
            rest
        }),
    ]
}

fn report() -> impl Strategy<Value = Report> {
    let quoted = prop_oneof![
        4 => Just(1400usize),
        2 => 20..90usize,
        1 => select(vec![28usize, 48]),
    ];
    let kind = prop_oneof![12 => 0..4u8, 1 => Just(4u8)];
    (kind, any::<bool>(), quoted).prop_map(|(kind, from_router, quoted)| Report {
        kind,
        from_router,
        quoted,
    })
}

/// Returns a strategy of the pieces that come of a datagram's three, in their order.
pub(crate) fn datagram(
    mutations: impl Strategy<Value = Vec<Mutation>>,
) -> impl Strategy<Value = Vec<(usize, Vec<Mutation>)>> {
    let order = prop_oneof![
        6 => Just(vec![0usize, 1, 2]),
        2 => Just(vec![0usize, 2, 1]),
        1 => Just(vec![1usize, 0, 2]),
        1 => vec(0..3usize, 1..4),
    ];
    // Every piece is changed alike, so that they stay one datagram as often as not.
    (order, mutations).prop_map(|(order, mutations)| {
        let piece = |piece| (piece, mutations.clone());
        order.into_iter().map(piece).collect()
    })
}

/// One change of a frame to `most`.
pub(crate) fn mutations(most: usize) -> impl Strategy<Value = Vec<Mutation>> {
    vec(mutation(), 1..=most)
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let near = || prop_oneof![2 => 0..120u16, 1 => any::<u16>()];
    let field = || 0..FIELDS.len() as u8;
    let telling = prop_oneof![
        3 => select(vec![
            0u16, 1, 2, 4, 5, 6, 8, 17, 20, 28, 40, 43, 44, 51, 58, 59, 60, 132, 255, 0x45, 0x46,
            0x4f, 0x60, 0x0800, 0x86dd, 0x8100, 0x0806, 0x2000, 0x2001, 0x1fff, 0x4000, 0xffff,
            0x00ff, 0xff00, 0x0100,
        ]),
        2 => 0..300u16,
        1 => any::<u16>(),
    ];
    prop_oneof![
        4 => (near(), any::<u8>()).prop_map(|(at, bit)| Mutation::Flip { at, bit }),
        2 => (near(), any::<u8>()).prop_map(|(at, value)| Mutation::Set { at, value }),
        4 => (field(), telling).prop_map(|(which, value)| Mutation::Field { which, value }),
        4 => (field(), any::<i8>()).prop_map(|(which, by)| Mutation::Shift { which, by }),
        2 => (field(), -9..10i8).prop_map(|(which, by)| Mutation::Shift { which, by }),
        2 => any::<u16>().prop_map(|at| Mutation::Cut { at }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(by, value)| Mutation::Extend { by, value }),
        1 => (near(), vec(any::<u8>(), 1..24))
            .prop_map(|(at, bytes)| Mutation::Insert { at, bytes }),
        1 => (near(), 1..24u8).prop_map(|(at, length)| Mutation::Remove { at, length }),
        1 => (near(), near(), 1..48u8)
            .prop_map(|(from, to, length)| Mutation::Copy { from, to, length }),
    ]
}

/// Bytes at random, as IPv4 and as IPv6 among others.
pub(crate) fn bytes() -> impl Strategy<Value = (Hook, Vec<u8>)> {
    let kind = select(vec![
        (0x0800u16, 0x45u8),
        (0x0800, 0x4f),
        (0x86dd, 0x60),
        (0x86dd, 0x6f),
        (0x8100, 0x81),
    ]);
    let hook = prop_oneof![Just(Hook::Ingress), Just(Hook::Egress)];
    (hook, option::weighted(0.9, kind), vec(any::<u8>(), 14..400)).prop_map(
        |(hook, kind, mut bytes)| {
            bytes[..6].fill(0);
            if let Some((kind, first)) = kind {
                bytes[12..14].copy_from_slice(&kind.to_be_bytes());
                if let Some(byte) = bytes.get_mut(14) {
                    *byte = first;
                }
            }
            (hook, bytes)
        },
    )
}
