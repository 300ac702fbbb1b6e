//! TCP sockets of the node's processes behave as with the backends' own addresses.

use shunt_tests::addresses;

use crate::{
    host_world::{HostWorld, mapped, service},
    syscalls::{Place, same_as_direct},
    world::SERVED,
};

/// An address of the node's own network without a host.
const NOBODY: &str = "192.168.16.99:8080";

/// Both sides of the connection send data with the SYN, without a cookie, on every socket: the bits
/// of `ip-sysctl.rst`.
const FAST_OPEN: &str = "1543";

/// The services of [`ROWS`], and what stands for them: `@a`, `@b` and the rest at IPv4, IPv6 and mapped.
fn places(host: &mut HostWorld) -> Vec<Place> {
    let [a, b] = ["pod-a", "pod-b"].map(|pod| host.world.backend(pod));
    let [a_v6, b_v6] = ["pod-a", "pod-b"].map(|pod| host.world.backend_v6(pod));
    let nobody = NOBODY.parse().unwrap();
    let closed = host.world.sandbox.pod("pod-a").at(9);
    host.update(&[
        service("a", "10.96.0.10", &[a, a_v6]),
        service("b", "10.96.0.11", &[b, b_v6]),
        service("nobody", "10.96.0.12", &[nobody]),
        service("closed", "10.96.0.13", &[closed]),
    ]);
    let [front_a, front_b, front_nobody, front_closed] =
        [10, 11, 12, 13].map(|last| format!("10.96.0.{last}:80").parse().unwrap());
    let v6 = |v4: std::net::SocketAddr| (addresses::v6(v4.ip()), v4.port()).into();
    vec![
        ("@a4", front_a, a),
        ("@a6", v6(front_a), a_v6),
        ("@am", mapped(front_a), mapped(a)),
        ("@b4", front_b, b),
        ("@b6", v6(front_b), b_v6),
        ("@bm", mapped(front_b), mapped(b)),
        ("@nobody", front_nobody, nobody),
        ("@closed", front_closed, closed),
    ]
}

const ROWS: &[(&str, &str)] = &[
    (
        "a connection",
        "open s tcp4; connect s @a4 -> ok; getpeername s -> @a4; getsockname s; send s hello -> ok;
         recv s -> pod-a saw; connect s @a4 -> EISCONN; connect s @b4 -> EISCONN; getpeername s -> @a4",
    ),
    (
        "a connection that is not waited for",
        "open s tcp4; nonblocking s; connect s @a4 -> EINPROGRESS; connected s -> ok; connect s @a4 -> ok;
         connect s @a4 -> EISCONN; getpeername s -> @a4; blocking s; send s hello -> ok; recv s -> pod-a saw",
    ),
    (
        "a second call while the first one goes on",
        "open s tcp4; nonblocking s; connect s @nobody -> EINPROGRESS; connect s @nobody -> EALREADY;
         connect s @a4 -> EALREADY; getpeername s -> ENOTCONN",
    ),
    (
        "a port where nobody listens",
        "open s tcp4; connect s @closed -> ECONNREFUSED; getpeername s -> ENOTCONN;
         connect s @a4 -> ok; getpeername s -> @a4; send s hello; recv s -> pod-a saw",
    ),
    (
        "the same without waiting",
        "open s tcp4; nonblocking s; connect s @closed -> EINPROGRESS; connected s -> ECONNREFUSED",
    ),
    (
        "fast open by sendto",
        "open s tcp4; sendto-fastopen s @a4 hello -> ok; recv s -> pod-a saw; getpeername s -> @a4;
         sent-with-syn s -> true; send s again; recv s -> pod-a saw",
    ),
    (
        "fast open by sendto where nobody listens",
        "open s tcp4; sendto-fastopen s @closed hello -> ECONNREFUSED",
    ),
    (
        "fast open by connect",
        "open s tcp4; fastopen-connect s -> ok; connect s @a4 -> ok; connect s @a4; getpeername s;
         send s hello -> ok; recv s -> pod-a saw; getpeername s -> @a4; sent-with-syn s -> true",
    ),
    (
        "a disconnected socket that is connected anew",
        "open s tcp4; connect s @a4 -> ok; disconnect s -> ok; getpeername s -> ENOTCONN;
         connect s @b4 -> ok; getpeername s -> @b4; send s hello; recv s -> pod-b saw",
    ),
    (
        "a device that leads there",
        "open s tcp4; bind-device s pod-a -> ok; connect s @a4 -> ok; send s hello; recv s -> pod-a saw",
    ),
    (
        "a device that leads elsewhere",
        "open s tcp4; bind-device s eth0 -> ok; nonblocking s; connect s @a4; getpeername s -> ENOTCONN",
    ),
    (
        "an address of one's own",
        "open s tcp4; bind s 192.168.16.10:0 -> ok; connect s @a4 -> ok; getsockname s -> 192.168.16.10;
         send s hello; recv s -> pod-a saw 192.168.16.10 own; getpeername s -> @a4",
    ),
    (
        "an address that leads to the host alone",
        "open s tcp4; bind s 127.0.0.1:0 -> ok; connect s @a4 -> EINVAL",
    ),
    (
        "IPv6",
        "open s tcp6; connect s @a6 -> ok; getpeername s -> @a6; getsockname s; send s hello;
         recv s -> pod-a saw; disconnect s -> ok; connect s @b6 -> ok; getpeername s -> @b6",
    ),
    (
        "an IPv6 address of one's own",
        "open s tcp6; bind s [fd00:192:168:16::10]:0 -> ok; connect s @a6 -> ok; send s hello;
         recv s -> pod-a saw fd00:192:168:16::10 own",
    ),
    (
        "IPv4 by an IPv6 socket",
        "open s tcp6; connect s @am -> ok; getpeername s -> @am; getsockname s -> ::ffff:; send s hello;
         recv s -> pod-a saw; disconnect s; connect s @bm -> ok; getpeername s -> @bm",
    ),
    (
        "fast open of IPv4 by an IPv6 socket",
        "open s tcp6; sendto-fastopen s @am hello -> ok; recv s -> pod-a saw; getpeername s -> @am",
    ),
];

#[test]
fn a_tcp_socket_of_the_node_behaves_as_with_direct_addresses() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let sandbox = &mut host.world.sandbox;
    for side in [sandbox.node(), sandbox.pod("pod-a").namespace()] {
        side.set("net/ipv4/tcp_fastopen", FAST_OPEN).unwrap();
    }
    sandbox.serve("pod-a", &[SERVED]).unwrap();
    let places = places(&mut host);
    same_as_direct(&host, &places, ROWS);
    assert!(host.count("socket_connect") >= ROWS.len() as u64);
    assert_eq!(host.count("connection"), 0, "no packet is translated");
}
