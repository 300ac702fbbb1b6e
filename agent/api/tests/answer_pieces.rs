//! Answers to lookups that are too large for one message.

use prost::Message as _;
use shunt_api::{
    message::{
        join_lookup, join_services, join_watch, lookup_pieces, services_pieces, watch_pieces,
    },
    proto::{
        Answer, BehindEndpoint, Empty, EndpointKey, Frontend, FrontendKey, LiveBackend,
        LookupResponse, Membership, Memberships, ServicesResponse, Target, Targets, WatchResponse,
    },
};

/// The default limit of gRPC's clients.
const LIMIT: usize = 4 << 20;

fn key(number: usize) -> EndpointKey {
    EndpointKey {
        frontend_port: 80,
        protocol: 6,
        ip: format!("10.1.{}.{}", number / 250, number % 250),
        port: 8080,
    }
}

fn endpoints(count: usize) -> Vec<BehindEndpoint> {
    let endpoint = |number| BehindEndpoint {
        key: Some(key(number)),
        service: "x".repeat(400),
        ..BehindEndpoint::default()
    };
    (0..count).map(endpoint).collect()
}

fn targets(count: usize) -> Vec<Target> {
    let target = |_| Target {
        kind: "y".repeat(300),
        ..Target::default()
    };
    (0..count).map(target).collect()
}

fn memberships(count: usize) -> Vec<Membership> {
    let membership = |_| Membership {
        service: "z".repeat(300),
        ..Membership::default()
    };
    (0..count).map(membership).collect()
}

fn lookup(size: usize) -> LookupResponse {
    let missing = FrontendKey {
        address: "10.96.0.1".to_owned(),
        port: 80,
        protocol: 6,
    };
    LookupResponse {
        missing: vec![missing; size],
        answer: Some(Answer {
            generation: 7,
            kind: "ClusterIP".to_owned(),
            targets: targets(size),
            endpoints: endpoints(size),
            member_of: memberships(size),
        }),
        ..LookupResponse::default()
    }
}

fn watch(size: usize) -> WatchResponse {
    WatchResponse {
        generation: 7,
        snapshot: true,
        rebind: true,
        targets: Some(Targets {
            kind: "ClusterIP".to_owned(),
            list: targets(size),
        }),
        adds: endpoints(size),
        removes: (0..size).map(key).collect(),
        empty: None,
        member_of: Some(Memberships {
            list: memberships(size),
        }),
        more: false,
    }
}

#[test]
fn an_answer_comes_in_pieces_that_every_client_takes() {
    for (size, least) in [(0, 1), (100, 1), (20_000, 4)] {
        let pieces: Vec<LookupResponse> = lookup_pieces(lookup(size)).collect();
        assert!(pieces.len() >= least, "{size}");
        assert!(least > 1 || pieces.len() == 1, "earlier clients read one");
        for piece in &pieces {
            assert!(piece.encoded_len() < LIMIT, "{size}");
        }
        let whole = pieces.into_iter().reduce(|mut whole, next| {
            join_lookup(&mut whole, next);
            whole
        });
        assert!(whole == Some(lookup(size)), "{size}");
    }
}

/// A frontend with so many backends, each as large as there can be.
fn frontend(backends: u32) -> Frontend {
    let backend = |number: u32| LiveBackend {
        ip: format!("2001:db8:1234:1234:1234:1234:{:04x}:{number:04x}", 0x1234),
        port: 65535,
        weight: u32::MAX,
        local: true,
        new_connections: u64::MAX - u64::from(number),
    };
    Frontend {
        key: Some(FrontendKey {
            address: "2001:db8::1".to_owned(),
            port: 80,
            protocol: 6,
        }),
        service: Some("x".repeat(300)),
        backends: (0..backends).map(backend).collect(),
        ..Frontend::default()
    }
}

#[test]
fn a_listing_comes_in_pieces_that_every_client_takes() {
    let key = FrontendKey {
        address: "2001:db8:1234:1234:1234:1234:1234:1234".to_owned(),
        port: 65535,
        protocol: 17,
    };
    for (missing, sizes) in [
        (0, vec![]),
        (0, vec![1; 20_000]),
        (200_000, vec![]),
        (1, vec![1, 200_000, 1, 32_768, 32_769]),
    ] {
        let whole = ServicesResponse {
            frontends: sizes.iter().copied().map(frontend).collect(),
            missing: vec![key.clone(); missing],
        };
        let frontends = whole.frontends.clone().into_iter();
        let pieces: Vec<ServicesResponse> =
            services_pieces(whole.missing.clone(), frontends).collect();
        assert!(!pieces.is_empty());
        for piece in &pieces {
            assert!(piece.encoded_len() < LIMIT, "{missing}");
        }
        let mut joined = ServicesResponse::default();
        for piece in pieces {
            join_services(&mut joined, piece);
        }
        assert!(joined == whole, "{missing}");
    }
}

#[test]
fn a_frontend_that_is_too_large_comes_in_parts() {
    let whole = LookupResponse {
        frontends: vec![frontend(2), frontend(100_000)],
        backend_of: vec![frontend(70_000)],
        answer: Some(Answer::default()),
        ..LookupResponse::default()
    };
    let mut joined = LookupResponse::default();
    for piece in lookup_pieces(whole.clone()) {
        assert!(piece.encoded_len() < LIMIT);
        join_lookup(&mut joined, piece);
    }
    assert!(joined == whole);
}

#[test]
fn a_change_comes_in_pieces_that_every_client_takes() {
    for (size, least) in [(0, 1), (100, 1), (20_000, 4)] {
        let pieces: Vec<WatchResponse> = watch_pieces(watch(size)).collect();
        assert!(pieces.len() >= least, "{size}");
        assert!(least > 1 || pieces.len() == 1, "earlier clients read one");
        for (number, piece) in pieces.iter().enumerate() {
            assert!(piece.encoded_len() < LIMIT, "{size}");
            assert_eq!(piece.snapshot, number == 0);
            assert_eq!(piece.more, number + 1 < pieces.len());
        }
        let whole = pieces.into_iter().reduce(|mut whole, next| {
            join_watch(&mut whole, next);
            whole
        });
        assert!(whole == Some(watch(size)), "{size}");
    }
}

#[test]
fn what_is_not_said_is_in_no_piece() {
    let change = WatchResponse {
        generation: 8,
        empty: Some(Empty { exists: true }),
        ..WatchResponse::default()
    };
    let pieces: Vec<WatchResponse> = watch_pieces(change.clone()).collect();
    assert_eq!(pieces, [change]);
}

#[test]
fn an_element_that_is_too_large_comes_alone() {
    let mut whole = watch(3);
    whole.adds[1].service = "x".repeat(LIMIT);
    let pieces: Vec<WatchResponse> = watch_pieces(whole).collect();
    let counts: Vec<usize> = pieces.iter().map(|piece| piece.adds.len()).collect();
    assert_eq!(counts, [1, 1, 1]);
}
