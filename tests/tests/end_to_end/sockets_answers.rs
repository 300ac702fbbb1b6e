//! A UDP socket of the node gets every answer from the address that the process sent to.

use std::net::{SocketAddr, UdpSocket};

use shunt_common::socket::PAIRS;

use crate::{
    host_world::{HostWorld, mapped, service},
    world::SERVED,
};

/// The ports of servers of which one is asked, and another answers.
const ASKED: u16 = 9000;
const OTHER: u16 = 9001;

/// Makes so many services, each with a backend of its own in pod-a. Returns their frontends and the
/// backends.
fn many(host: &mut HostWorld, count: u16) -> Vec<(SocketAddr, SocketAddr)> {
    let ports: Vec<_> = (0..count).map(|number| SERVED + number).collect();
    host.world.sandbox.serve("pod-a", &ports).unwrap();
    let mut pairs = Vec::new();
    for port in ports {
        let number = port - SERVED;
        let (ip, backend) = (
            format!("10.96.1.{number}"),
            host.world.sandbox.pod("pod-a").at(port),
        );
        host.update(&[service(&format!("s{number}"), &ip, &[backend])]);
        pairs.push((format!("{ip}:80").parse().unwrap(), backend));
    }
    pairs
}

#[test]
fn a_socket_remembers_the_last_frontends_that_it_asked() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let pairs = many(&mut host, PAIRS as u16 + 1);
    let mut caller = host.caller();
    caller.calls("open s udp4");
    for (frontend, _) in &pairs {
        caller.calls(&format!("sendto s {frontend} text -> ok"));
    }
    let counts = |host: &HostWorld| {
        (
            host.count("socket_datagram"),
            host.count("socket_forgotten"),
        )
    };
    assert_eq!(counts(&host), (17, 1));
    let mut senders: Vec<SocketAddr> = pairs
        .iter()
        .map(|_| {
            let said = caller.call("recvfrom s");
            said.split(' ').next().unwrap().parse().unwrap()
        })
        .collect();
    let mut expected: Vec<_> = pairs.iter().map(|(frontend, _)| *frontend).collect();
    expected[0] = pairs[0].1;
    senders.sort_unstable();
    expected.sort_unstable();
    assert_eq!(
        senders, expected,
        "the first one is forgotten, and answers as its backend"
    );

    // Those that it remembers are not chosen anew; the one that it does not is, in place of the next.
    let (last, _) = pairs[PAIRS];
    caller.calls(&format!(
        "sendto s {last} text -> ok; recvfrom s -> {last} pod-a"
    ));
    assert_eq!(counts(&host), (17, 1));
    let (first, _) = pairs[0];
    caller.calls(&format!(
        "sendto s {first} text -> ok; recvfrom s -> {first} pod-a"
    ));
    assert_eq!(counts(&host), (18, 2));
    // Its target as a connected socket is remembered beside them.
    let (second, _) = pairs[1];
    caller.calls(&format!(
        "connect s {second} -> ok; getpeername s -> {second}; send s text; recvfrom s -> {second};
         disconnect s; sendto s {last} text; recvfrom s -> {last}"
    ));
    assert_eq!(counts(&host), (18, 2));
}

#[test]
fn a_backend_of_two_frontends_answers_as_the_one_that_was_asked_last() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let backend = host.world.backend("pod-a");
    host.update(&[
        service("one", "10.96.0.10", &[backend]),
        service("two", "10.96.0.11", &[backend]),
    ]);
    let (one, two) = ("10.96.0.10:80", "10.96.0.11:80");
    let mut caller = host.caller();
    caller.calls(&format!(
        "open s udp4; sendto s {one} text; recvfrom s -> {one} pod-a; sendto s {two} text;
         recvfrom s -> {two} pod-a; sendto s {one} text; recvfrom s -> {one} pod-a;
         sendto s {one} text; sendto s {two} text; recvfrom s -> {two}; recvfrom s -> {two};
         connect s {one}; getpeername s -> {one}; send s text; recvfrom s -> {one};
         connect s {two}; getpeername s -> {two}; send s text; recvfrom s -> {two}"
    ));
    let mut other = host.caller();
    other.calls(&format!(
        "open s udp4; sendto s {two} text; recvfrom s -> {two}"
    ));
    caller.calls(&format!("send s text; recvfrom s -> {two}"));
}

#[test]
fn a_backend_that_is_asked_itself_answers_as_itself() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let (backend, other) = (host.world.backend("pod-a"), host.world.backend("pod-d"));
    let (backend_v6, mapped) = (host.world.backend_v6("pod-a"), mapped(backend));
    host.update(&[service("one", "10.96.0.10", &[backend, backend_v6])]);
    let frontend = "10.96.0.10:80";
    let mut caller = host.caller();
    // A connected socket: to the frontend, to another address, to the backend itself, and back.
    caller.calls(&format!(
        "open c udp4; connect c {frontend}; getpeername c -> {frontend}; send c text; recvfrom c -> {frontend};
         connect c {other}; getpeername c -> {other}; send c text; recvfrom c -> {other} pod-d;
         connect c {frontend}; getpeername c -> {frontend}; connect c {backend} -> ok;
         getpeername c -> {backend}; send c text; recvfrom c -> {backend} pod-a;
         connect c {frontend}; getpeername c -> {frontend}; send c text; recvfrom c -> {frontend}"
    ));
    caller.calls(&format!(
        "open u udp4; sendto u {frontend} text; recvfrom u -> {frontend}; sendto u {other} text;
         recvfrom u -> {other}; sendto u {backend} text; recvfrom u -> {backend} pod-a;
         sendto u {frontend} text; recvfrom u -> {frontend} pod-a; connect u {backend}; getpeername u -> {backend};
         send u text; recvfrom u -> {backend}"
    ));
    caller.calls(&format!(
        "open m udp6; sendto m [::ffff:10.96.0.10]:80 text; recvfrom m -> [::ffff:10.96.0.10]:80 pod-a;
         sendto m {mapped} text; recvfrom m -> {mapped} pod-a; sendto m [fd00:10:96::10]:80 text;
         recvfrom m -> [fd00:10:96::10]:80 pod-a; sendto m {backend_v6} text; recvfrom m -> {backend_v6} pod-a"
    ));
    // A TCP socket that is used again.
    caller.calls(&format!(
        "open t tcp4; connect t {frontend}; getpeername t -> {frontend}; disconnect t;
         connect t {backend} -> ok; getpeername t -> {backend}; send t text; recv t -> pod-a"
    ));
}

#[test]
fn an_answer_from_another_address_than_was_asked_is_left_alone() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let pod = host.world.sandbox.pod("pod-a");
    let servers = [
        pod.at(ASKED),
        pod.at(OTHER),
        pod.at_v6(ASKED),
        pod.at_v6(OTHER),
    ]
    .map(|at| pod.namespace().enter(|| UdpSocket::bind(at).unwrap()));
    let [asked, other, asked_v6, other_v6] = servers.each_ref();
    let at = |server: &UdpSocket| server.local_addr().unwrap();
    host.update(&[
        service("asked", "10.96.0.10", &[at(asked), at(asked_v6)]),
        // The other one is a backend too, but no client uses its service.
        service("other", "10.96.0.11", &[at(other), at(other_v6)]),
    ]);
    let frontend: SocketAddr = "10.96.0.10:80".parse().unwrap();
    let frontend_v6 = "[fd00:10:96::10]:80".parse().unwrap();
    let mut caller = host.caller();
    for (family, frontend, named, (asked, other)) in [
        ("4", frontend, at(other), (asked, other)),
        ("6", frontend_v6, at(other_v6), (asked_v6, other_v6)),
        ("6", mapped(frontend), mapped(at(other)), (asked, other)),
    ] {
        caller.calls(&format!(
            "open s udp{family}; sendto s {frontend} text -> ok"
        ));
        let (_, client) = asked.recv_from(&mut [0; 16]).unwrap();
        other.send_to(b"other", client).unwrap();
        asked.send_to(b"asked", client).unwrap();
        caller.calls(&format!(
            "peek s -> {named} \"other\"; recvfrom s -> {named} \"other\"; recvfrom s -> {frontend} \"asked\""
        ));
        // A connected socket hears its peer alone.
        caller.calls(&format!("connect s {frontend} -> ok; send s text -> ok"));
        asked.recv_from(&mut [0; 16]).unwrap();
        other.send_to(b"other", client).unwrap();
        asked.send_to(b"asked", client).unwrap();
        caller.calls(&format!(
            "recvfrom s -> {frontend} \"asked\"; nonblocking s; recvfrom s -> EAGAIN; close s"
        ));
    }
}

#[test]
fn threads_that_share_a_socket_are_told_apart_by_what_they_asked() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let pairs = many(&mut host, 8);
    let targets: Vec<_> = pairs
        .iter()
        .map(|(frontend, _)| frontend.to_string())
        .collect();
    let mut caller = host.caller();
    let targets = targets.join(" ");
    caller.calls(&format!(
        "open s udp4; ask-by-threads s 300 {targets} -> 0 wrong"
    ));
    assert_eq!(host.count("socket_forgotten"), 0);
}
