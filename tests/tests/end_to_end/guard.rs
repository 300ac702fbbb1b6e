//! Services' addresses, asked for what is no frontend.

use std::{
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use serde_json::json;
use shunt_tests::{Failure, Namespace, Target, Transport, addresses};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    dual_stack::{Family, service, world_with_flags},
    host_world::{self, HostWorld},
    service::Service,
    world::{REQUEST, World},
};

/// Nothing was waited for, but that an error which is there before `connect` has let go of its socket only
/// counts when the SYN is sent again, a second later.
const AT_ONCE: Duration = Duration::from_millis(1900);

const TRANSPORTS: [Transport; 2] = [Transport::Tcp, Transport::Udp];

fn counted(world: &World, counter: &str) -> u64 {
    let status = world.shunt(&["status", "-o", "json"]).json();
    status["counters"][counter].as_u64().unwrap_or(0)
}

/// The event with the ranges of these worlds' services.
fn ranges() -> String {
    json!({ "event": "UpdateServiceCidrs", "new": ["10.96.0.0/16", "fd00:10:96::/112"] })
        .to_string()
}

fn guarded() -> Option<World> {
    let mut world = world_with_flags(&["--guard"])?;
    world.apply(&ranges());
    Some(world)
}

/// Asks once by ICMP whether the address is there. Returns how long the answer took.
fn ping(from: &Namespace, address: IpAddr, payload: usize) -> Option<Duration> {
    from.set("net/ipv4/ping_group_range", "0 0").unwrap();
    let (domain, protocol, kind) = match address {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, 8),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, 128),
    };
    // The kernel fills in the checksum and the identifier, and looks at the answer's.
    let mut request = vec![kind, 0, 0, 0, 0, 0, 0, 9];
    request.resize(8 + payload, 0xa5);
    from.enter(|| {
        let socket = Socket::new(domain, Type::DGRAM, Some(protocol)).unwrap();
        let socket = UdpSocket::from(OwnedFd::from(socket));
        socket.set_read_timeout(Some(AT_ONCE)).unwrap();
        let begin = Instant::now();
        socket.send_to(&request, (address, 0)).unwrap();
        let mut answer = [0; 2000];
        let (length, sender) = socket.recv_from(&mut answer).ok()?;
        assert_eq!(sender.ip(), address);
        assert_eq!(answer[6..length], request[6..], "all that was sent");
        Some(begin.elapsed())
    })
}

#[test]
fn another_port_of_a_cluster_ip_is_refused_at_once_and_a_free_address_is_silent() {
    let Some(mut world) = guarded() else {
        return;
    };
    for transport in TRANSPORTS {
        let service = service(&world, transport, &["pod-a", "pod-d"]);
        world.update(&service);
        for family in Family::BOTH {
            let known = family.target(service.cluster_ip());
            let ip = known.address().ip();
            let other = Target::new(transport, SocketAddr::new(ip, 81));
            for from in [world.client_pod(), world.sandbox.outside()] {
                let begin = Instant::now();
                let answer = from.enter(|| other.ask(REQUEST));
                assert!(matches!(answer, Err(Failure::Refused)), "{answer:?}");
                assert!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
                from.enter(|| known.ask(REQUEST)).unwrap();
            }
        }
    }
    assert!(counted(&world, "reject_unknown_port") >= 8);
    assert_eq!(counted(&world, "drop_free_address"), 0);
    for family in Family::BOTH {
        let free = family.of("10.96.0.77".parse().unwrap());
        let free = Target::new(Transport::Udp, SocketAddr::new(free, 80));
        let answer = world.client_pod().enter(|| free.ask(REQUEST));
        assert!(matches!(answer, Err(Failure::TimedOut)), "{answer:?}");
    }
    assert!(counted(&world, "drop_free_address") >= 2);
}

#[test]
fn a_service_answers_pings_and_a_machine_does_for_itself() {
    // On by default, without the guard.
    let Some(mut world) = world_with_flags(&[]) else {
        return;
    };
    let service = service(&world, Transport::Tcp, &[]);
    world.update(&service);
    way_to_external_leads_outside(&world, &service);
    let (pod, outside) = (world.client_pod(), world.sandbox.outside());
    let before = counted(&world, "echo_reply");
    for family in Family::BOTH {
        let [cluster_ip, external_ip] = [service.cluster_ip(), service.external_ip()]
            .map(|target| family.target(target).address().ip());
        for (from, address) in [
            (pod, cluster_ip),
            (outside, cluster_ip),
            (outside, external_ip),
        ] {
            for payload in [0, 56, 1001] {
                let took = ping(from, address, payload);
                assert!(took.is_some(), "{address} with {payload} bytes");
            }
        }
    }
    assert_eq!(counted(&world, "echo_reply"), before + 18);
    for family in Family::BOTH {
        let node = family.of(addresses::NODE);
        assert!(ping(world.client_pod(), node, 56).is_some());
    }
    assert_eq!(counted(&world, "echo_reply"), before + 18, "the node's own");
}

/// Makes the client outside the node's way to the service's external addresses.
fn way_to_external_leads_outside(world: &World, service: &Service) {
    let (router, router_v6) = (addresses::OUTSIDE, addresses::v6(addresses::OUTSIDE));
    let known = Family::BOTH.map(|family| family.target(service.external_ip()));
    let [v4, v6] = known.map(|target| target.address().ip());
    let routes = format!("route add {v4}/32 via {router}\nroute add {v6}/128 via {router_v6}\n");
    world.sandbox.node().configure(&routes).unwrap();
}

#[test]
fn nobody_answers_pings_in_the_name_of_another_node() {
    // As a load balancer's status names the nodes themselves.
    for guard in ["--guard", "--guard=false"] {
        let Some(mut world) = world_with_flags(&[guard]) else {
            return;
        };
        let other = addresses::NODE2;
        let mut event = service(&world, Transport::Tcp, &["pod-a"]).json();
        event["external_ips"] = json!([other.to_string()]);
        world.apply(&json!({ "event": "UpdateService", "service": event }).to_string());
        let clients = [world.client_pod(), world.sandbox.outside()];
        for from in clients {
            assert!(ping(from, other, 56).is_some(), "it is up");
        }
        let node2 = world.sandbox.node2();
        node2.configure("link set eth0 down\n").unwrap();
        for from in clients {
            assert_eq!(ping(from, other, 56), None, "it is down");
        }
        assert_eq!(counted(&world, "echo_reply"), 0);
    }
}

#[test]
fn without_answers_a_ping_has_none() {
    let Some(mut world) = world_with_flags(&["--answer-echo=false"]) else {
        return;
    };
    let service = service(&world, Transport::Tcp, &["pod-a"]);
    world.update(&service);
    let address = service.cluster_ip().address().ip();
    assert_eq!(ping(world.client_pod(), address, 56), None);
    assert_eq!(counted(&world, "echo_reply"), 0);
}

#[test]
fn nothing_goes_to_and_fro_between_the_node_and_its_router() {
    let Some(mut world) = guarded() else {
        return;
    };
    let service = service(&world, Transport::Udp, &["pod-a"]);
    world.update(&service);
    let outside = world.sandbox.outside();
    // The client outside is a router that has this node as its way to the address, and the node it.
    outside.set("net/ipv4/ip_forward", "1").unwrap();
    outside.set("net/ipv6/conf/all/forwarding", "1").unwrap();
    way_to_external_leads_outside(&world, &service);
    let known = Family::BOTH.map(|family| family.target(service.external_ip()));
    for known in known {
        let before = counted(&world, "drop_loop");
        let other = Target::new(Transport::Udp, SocketAddr::new(known.address().ip(), 81));
        let answer = outside.enter(|| other.ask(REQUEST));
        assert!(
            matches!(answer, Err(Failure::TimedOut)),
            "no hop limit ran out: {answer:?}"
        );
        let dropped = counted(&world, "drop_loop") - before;
        assert!((1..=3).contains(&dropped), "each came once: {dropped}");
        outside.enter(|| known.ask(REQUEST)).unwrap();
    }
}

#[test]
fn a_machine_that_has_an_external_address_is_reached() {
    let Some(mut world) = guarded() else {
        return;
    };
    // A pod of the other node has the service's external address, and serves there itself.
    let service = service(&world, Transport::Tcp, &["pod-a"]);
    world.update(&service);
    let external = service.external_ip().address().ip();
    let pod = world.sandbox.pod("pod-d").namespace();
    pod.configure(&format!("address add {external}/32 dev lo\n"))
        .unwrap();
    let route = format!("route add {external}/32 via {}\n", addresses::NODE2);
    world.sandbox.node().configure(&route).unwrap();
    let node2 = world.sandbox.node2();
    node2
        .configure(&format!("route add {external}/32 dev pod-d\n"))
        .unwrap();
    let itself = SocketAddr::new(external, 8181);
    let _listener = pod.enter(|| TcpListener::bind(itself)).unwrap();
    for from in [world.client_pod(), world.sandbox.outside()] {
        let connected = from.enter(|| TcpStream::connect_timeout(&itself, AT_ONCE));
        assert_eq!(connected.unwrap().peer_addr().unwrap(), itself);
        assert!(ping(from, external, 56).is_some());
    }
    assert_eq!(counted(&world, "drop_loop"), 0);
    pod.configure(&format!("address delete {external}/32 dev lo\n"))
        .unwrap();
    for from in [world.client_pod(), world.sandbox.outside()] {
        assert_eq!(ping(from, external, 56), None, "nobody has it");
    }
    assert_eq!(counted(&world, "echo_reply"), 0);
}

#[test]
fn processes_of_the_node_are_told_at_once_too() {
    let Some(mut host) = HostWorld::with_flags("host", &["--guard"]) else {
        return;
    };
    let backends = [host.world.backend("pod-a"), host.world.backend_v6("pod-a")];
    host.update(&[host_world::service("web", "10.96.0.10", &backends)]);
    host.world.apply(&ranges());
    let every_way =
        "open t tcp4; connect t IP4:81 -> REFUSED; open c udp4; connect c IP4:81 -> REFUSED;
        open u udp4; sendto u IP4:81 text -> REFUSED; open t6 tcp6; connect t6 [IP6]:81 -> REFUSED;
        open u6 udp6; sendto u6 [IP6]:81 text -> REFUSED; connect t6 [::ffff:IP4]:81 -> REFUSED";
    for (v4, v6, error, counter) in [
        (
            "10.96.0.10",
            "fd00:10:96::10",
            "ECONNREFUSED",
            "socket_reject",
        ),
        ("10.96.0.77", "fd00:10:96::77", "EPERM", "socket_drop"),
    ] {
        let calls = every_way.replace("IP4", v4).replace("IP6", v6);
        let begin = Instant::now();
        host.caller().calls(&calls.replace("REFUSED", error));
        assert!(begin.elapsed() < Duration::from_secs(3));
        assert_eq!(host.count(counter), 6, "{v4}");
    }
    let mut caller = host.caller();
    caller.calls("open t tcp4; connect t 10.96.0.10:80 -> ok; send t text; recv t -> pod-a");
    // An address in no range is not guarded.
    caller.calls("open u udp4; sendto u 198.51.100.50:81 text");
    assert_eq!(
        (host.count("socket_reject"), host.count("socket_drop")),
        (6, 6)
    );
}
