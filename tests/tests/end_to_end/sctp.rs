//! SCTP in bulk: the kernel hands an association's packets on as one, whose parts are packets in a list.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use serde_json::json;
use shunt_tests::{Ability, Namespace, PinDir, Sandbox, kernel_has, patience};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    dual_stack::Family,
    world::{SERVED, Unattended, resync_with},
};

const BYTES: usize = 1 << 20;
/// A message each, longer than a packet.
const PIECE: usize = 16 << 10;
const ANSWER: &[u8] = b"whole";

/// A socket of one association.
fn open(family: Family) -> io::Result<Socket> {
    let domain = match family {
        Family::V4 => Domain::IPV4,
        Family::V6 => Domain::IPV6,
    };
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::SCTP))?;
    let limit = Some(patience(Duration::from_secs(10)));
    socket.set_read_timeout(limit)?;
    socket.set_write_timeout(limit)?;
    Ok(socket)
}

fn byte_at(place: usize) -> u8 {
    (place % 251) as u8
}

/// Takes [`BYTES`] of one client in order, and answers.
fn serve(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut taken = 0;
    let mut bytes = vec![0; 2 * PIECE];
    while taken < BYTES {
        let count = stream.read(&mut bytes).unwrap();
        assert_ne!(count, 0, "the association ended after {taken} bytes");
        for byte in &bytes[..count] {
            assert_eq!(*byte, byte_at(taken), "at {taken}");
            taken += 1;
        }
    }
    stream.write_all(ANSWER).unwrap();
}

/// Sends [`BYTES`] over one association.
fn send(family: Family, to: SocketAddr) {
    let socket = open(family).unwrap();
    socket.connect(&to.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    let bytes: Vec<_> = (0..BYTES).map(byte_at).collect();
    for piece in bytes.chunks(PIECE) {
        stream.write_all(piece).unwrap();
    }
    let mut answer = [0; ANSWER.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, ANSWER);
}

/// Sends [`BYTES`] from `client` to `to`, behind which is the server at `at` in `server`.
fn transfer(client: &Namespace, to: SocketAddr, server: &Namespace, at: SocketAddr) {
    let family = if to.is_ipv4() { Family::V4 } else { Family::V6 };
    let listener = server.enter(|| {
        let socket = open(family).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&at.into()).unwrap();
        socket.listen(1).unwrap();
        TcpListener::from(socket)
    });
    thread::scope(|scope| {
        let served = scope.spawn(|| serve(&listener));
        client.enter(|| send(family, to));
        served.join().unwrap();
    });
}

/// A client pod, another one that serves, and the server's address.
fn pods(sandbox: &Sandbox, family: Family) -> (&Namespace, &Namespace, SocketAddr) {
    let pod = sandbox.pod("pod-a");
    let at = match family {
        Family::V4 => pod.at(SERVED),
        Family::V6 => pod.at_v6(SERVED),
    };
    (sandbox.pod("pod-c").namespace(), pod.namespace(), at)
}

#[test]
fn much_arrives_whole_over_one_association() {
    if !kernel_has(&[Ability::Sctp]) {
        return;
    }
    let Some(sandbox) = Sandbox::serving(SERVED) else {
        return;
    };
    // As plain Linux forwards it.
    for family in Family::BOTH {
        let (client, pod, at) = pods(&sandbox, family);
        transfer(client, at, pod, at);
    }
    let pins = PinDir::new();
    let mut world = Unattended { pins, sandbox }.start(&[]);
    let pod = world.sandbox.pod("pod-a");
    let backends: Vec<_> = [pod.at(SERVED), pod.at_v6(SERVED)]
        .map(|at| {
            json!({
                "ip": at.ip(), "port": at.port(), "local": true, "host_network": false, "weight": 1,
            })
        })
        .into();
    world.apply(&resync_with(&[json!({
        "id": { "namespace": "default", "name": "web" },
        "cluster_ips": ["10.96.0.10", "fd00:10:96::10"],
        "external_ips": [],
        "traffic_policy": "Cluster",
        "session_affinity_timeout": 0,
        "ports": { "main": { "protocol": "SCTP", "port": 80 } },
        "backends": { "main": backends },
    })]));
    for family in Family::BOTH {
        let frontend = match family {
            Family::V4 => "10.96.0.10:80",
            Family::V6 => "[fd00:10:96::10]:80",
        };
        let (client, pod, at) = pods(&world.sandbox, family);
        transfer(client, at, pod, at);
        transfer(client, frontend.parse().unwrap(), pod, at);
    }
}
