//! UDP sockets of the node's processes behave as with the backends' own addresses.

use std::net::SocketAddr;

use shunt_tests::addresses;

use crate::{
    host_world::{HostWorld, lose, mapped, service},
    syscalls::{Place, same_as_direct},
};

/// The services of [`ROWS`], and what stands for them.
fn places(host: &mut HostWorld) -> Vec<Place> {
    let [a, b] = ["pod-a", "pod-b"].map(|pod| host.world.backend(pod));
    let [a_v6, b_v6] = ["pod-a", "pod-b"].map(|pod| host.world.backend_v6(pod));
    let closed = host.world.sandbox.pod("pod-a").at(9);
    let lost = lose(host.world.sandbox.node());
    host.update(&[
        service("a", "10.96.0.10", &[a, a_v6]),
        service("b", "10.96.0.11", &[b, b_v6]),
        service("closed", "10.96.0.13", &[closed]),
        service("lost", "10.96.0.14", &lost),
    ]);
    let [front_a, front_b, front_closed, front_lost] =
        [10, 11, 13, 14].map(|last| format!("10.96.0.{last}:80").parse::<SocketAddr>().unwrap());
    let v6 = |v4: SocketAddr| (addresses::v6(v4.ip()), v4.port()).into();
    vec![
        ("@a4", front_a, a),
        ("@a6", v6(front_a), a_v6),
        ("@am", mapped(front_a), mapped(a)),
        ("@b4", front_b, b),
        ("@b6", v6(front_b), b_v6),
        ("@bm", mapped(front_b), mapped(b)),
        ("@closed", front_closed, closed),
        ("@lost4", front_lost, lost[0]),
        ("@lost6", v6(front_lost), lost[1]),
        ("@lostm", mapped(front_lost), mapped(lost[0])),
    ]
}

const ROWS: &[(&str, &str)] = &[
    (
        "a connected socket",
        "open s udp4; connect s @a4 -> ok; getpeername s -> @a4; getsockname s; send s one -> ok;
         recv s -> pod-a saw; send s two; recvfrom s -> @a4 pod-a saw; send s three;
         recvmmsg s 1 -> @a4 pod-a saw; send s four; peek s -> @a4 pod-a saw; peek s -> @a4 pod-a;
         recvfrom s -> @a4 pod-a saw",
    ),
    (
        "a socket that is connected to another one",
        "open s udp4; connect s @a4 -> ok; send s one; recvfrom s -> @a4; connect s @b4 -> ok;
         getpeername s -> @b4; send s two; recvfrom s -> @b4 pod-b; connect s @a4 -> ok;
         getpeername s -> @a4; send s three; recvfrom s -> @a4 pod-a",
    ),
    (
        "a connected socket whose next connect fails",
        "open s udp4; connect s @a4 -> ok; connect s @lost4 -> EHOSTUNREACH; getpeername s -> @a4;
         send s one -> ok; recvfrom s -> @a4 pod-a; sendto s @a4 two -> ok; recvfrom s -> @a4 pod-a;
         connect s 10.1.9.9:9 -> EHOSTUNREACH; getpeername s -> @a4; send s three; recvfrom s -> @a4 pod-a;
         connect s @b4 -> ok; getpeername s -> @b4; send s four; recvfrom s -> @b4 pod-b;
         connect s @lost4 -> EHOSTUNREACH; connect s @lost4 -> EHOSTUNREACH; getpeername s -> @b4;
         send s five; recvfrom s -> @b4 pod-b; sendto s @b4 six; recvfrom s -> @b4 pod-b;
         connect s @a4 -> ok; getpeername s -> @a4; send s seven; recvfrom s -> @a4 pod-a;
         disconnect s; getpeername s -> ENOTCONN; connect s @lost4 -> EHOSTUNREACH; getpeername s -> ENOTCONN",
    ),
    (
        "an answer of the peer before",
        "open s udp4; connect s @a4 -> ok; send s one; peek s -> @a4 pod-a; connect s @b4 -> ok;
         recvfrom s -> @a4 pod-a; send s two; recvfrom s -> @b4 pod-b",
    ),
    (
        "a socket that is connected no more",
        "open s udp4; connect s @a4 -> ok; send s one; recvfrom s -> @a4; disconnect s -> ok;
         getpeername s -> ENOTCONN; send s two -> EDESTADDRREQ; sendto s @b4 three -> ok;
         recvfrom s -> @b4 pod-b; sendto s @a4 four; recvfrom s -> @a4 pod-a; connect s @b4 -> ok;
         getpeername s -> @b4; send s five; recvfrom s -> @b4",
    ),
    (
        "a connected socket that sends elsewhere",
        "open s udp4; connect s @a4 -> ok; sendto s @a4 one -> ok; recvfrom s -> @a4 pod-a;
         sendto s @b4 two -> ok; send s three; recvfrom s -> @a4 pod-a; nonblocking s;
         recvfrom s -> EAGAIN; getpeername s -> @a4",
    ),
    (
        "a socket without a peer",
        "open s udp4; sendto s @a4 one -> ok; getpeername s -> ENOTCONN; peek s -> @a4 pod-a saw;
         peek s -> @a4; recvfrom s -> @a4 pod-a saw; sendto s @b4 two; recvmmsg s 1 -> @b4 pod-b saw;
         sendto s @a4 three; sendto s @a4 four; recvfrom s -> @a4; recv s -> pod-a saw",
    ),
    (
        "many messages in a call",
        "open s udp4; sendmmsg s @a4 one @b4 two @a4 three @b4 four -> 4;
         recvmmsg s 4 -> @a4 pod-a",
    ),
    (
        "many messages in a call to the peer",
        "open s udp4; connect s @a4; sendmmsg s @a4 one @a4 two -> 2; recvmmsg s 2 -> @a4 pod-a",
    ),
    (
        "a port where nobody listens",
        "open s udp4; connect s @closed -> ok; getpeername s -> @closed; send s one -> ok;
         recv s -> ECONNREFUSED; connect s @a4 -> ok; send s two; recvfrom s -> @a4",
    ),
    (
        "a device that leads there",
        "open s udp4; bind-device s pod-a -> ok; sendto s @a4 one -> ok; recvfrom s -> @a4 pod-a;
         connect s @a4 -> ok; send s two; recvfrom s -> @a4 pod-a",
    ),
    (
        "a device that leads elsewhere",
        "open s udp4; bind-device s eth0 -> ok; nonblocking s; sendto s @a4 one; recvfrom s -> EAGAIN",
    ),
    (
        "an address of one's own",
        "open s udp4; bind s 192.168.16.10:0 -> ok; sendto s @a4 one;
         recvfrom s -> @a4 pod-a saw 192.168.16.10 own; connect s @b4 -> ok; send s two;
         recvfrom s -> @b4 pod-b saw 192.168.16.10 own",
    ),
    (
        "an address that leads to the host alone",
        "open s udp4; bind s 127.0.0.1:0 -> ok; sendto s @a4 one -> EINVAL; connect s @a4 -> EINVAL",
    ),
    (
        "IPv6",
        "open s udp6; sendto s @a6 one -> ok; recvfrom s -> @a6 pod-a saw;
         sendmmsg s @a6 two @b6 three -> 2; recvmmsg s 2 -> @a6 pod-a; connect s @b6 -> ok;
         getpeername s -> @b6; send s four; recvfrom s -> @b6; connect s @a6 -> ok; getpeername s -> @a6; disconnect s -> ok;
         getpeername s -> ENOTCONN; sendto s @a6 five",
    ),
    (
        "IPv4 by an IPv6 socket",
        "open s udp6; sendto s @am one -> ok; recvfrom s -> @am pod-a saw; sendto s @b6 two;
         recvfrom s -> @b6 pod-b; sendmmsg s @am three @b6 four -> 2; recvmmsg s 2 -> @am pod-a; nonblocking s;
         peek s -> EAGAIN; blocking s; connect s @bm -> ok; getpeername s -> @bm; getsockname s -> ::ffff:;
         send s five; recvfrom s -> @bm pod-b; connect s @am -> ok; getpeername s -> @am;
         send s six; recvmmsg s 1 -> @am pod-a",
    ),
    (
        "IPv6, and a connect that fails",
        "open s udp6; connect s @a6 -> ok; connect s @lost6 -> EHOSTUNREACH; getpeername s -> @a6;
         send s one; recvfrom s -> @a6 pod-a; sendto s @a6 two; recvfrom s -> @a6 pod-a;
         connect s @b6 -> ok; getpeername s -> @b6; send s three; recvfrom s -> @b6 pod-b",
    ),
    (
        "IPv4 by an IPv6 socket, and a connect that fails",
        "open s udp6; connect s @am -> ok; connect s @lostm -> EHOSTUNREACH; getpeername s -> @am;
         send s one; recvfrom s -> @am pod-a; sendto s @am two; recvfrom s -> @am pod-a;
         connect s @bm -> ok; getpeername s -> @bm; send s three; recvfrom s -> @bm pod-b",
    ),
];

#[test]
fn a_udp_socket_of_the_node_behaves_as_with_direct_addresses() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let places = places(&mut host);
    same_as_direct(&host, &places, ROWS);
    assert!(host.count("socket_connect") > 0);
    assert!(host.count("socket_datagram") > 0);
    assert_eq!(host.count("connection"), 0, "no packet is translated");
}

#[test]
fn a_connected_socket_stays_with_its_backend_where_that_is_a_frontend_of_another() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| host.world.backend(pod));
    let mut at_backend = service("b", &a.ip().to_string(), &[b]);
    for protocol in ["tcp", "udp"] {
        at_backend["ports"][protocol]["port"] = a.port().into();
    }
    host.update(&[service("a", "10.96.0.10", &[a]), at_backend]);
    let frontend: SocketAddr = "10.96.0.10:80".parse().unwrap();
    for (family, frontend) in [("udp4", frontend), ("udp6", mapped(frontend))] {
        host.caller().calls(&format!(
            "open s {family}; connect s {frontend} -> ok; getpeername s -> {frontend};
             send s one -> ok; recvfrom s -> {frontend} pod-a saw;
             sendto s {frontend} two -> ok; recvfrom s -> {frontend} pod-a saw"
        ));
    }
    assert_eq!(host.count("socket_datagram"), 0, "only `connect` chooses");
}
