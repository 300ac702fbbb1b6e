//! `--masquerade-external`: connections from outside go on from this node to its own backends, too.

use std::net::IpAddr;

use shunt_tests::run;

use super::{
    both_families,
    frame::{Packet, Transport},
    node::{Node, Verdict},
    ways::{attach, go_back},
    world::{Backends, Family, SERVED, cluster, in_network, seen},
};

/// A node whose service is masqueraded, with a backend here, to which packets go out by `eth0`. Whether that has the
/// programs.
fn node(has_programs: bool) -> Node {
    let cluster = cluster(Backends::Here);
    let masqueraded = cluster.replacen(r#""ports""#, r#""masquerade":true,"ports""#, 1);
    let mut node = Node::new([masqueraded.as_str()]);
    if has_programs {
        attach(&mut node, "eth0");
    }
    node
}

/// Has packets to pods go out by `eth0`, and those of the client outside come in where packets to it go out.
fn prepare<A: Family>()
where
    IpAddr: From<A>,
{
    for (range, gateway) in [
        ("10.1.1.0/24", "192.168.16.20"),
        ("fd00:10:1:1::/64", "2001:db8:16::20"),
    ] {
        run("ip", &["route", "add", range, "via", gateway]).unwrap();
    }
    go_back(A::OUTSIDER, true);
}

both_families!(a_backend_here_answers_by_this_nodes_address in in_network);
fn a_backend_here_answers_by_this_nodes_address<A: Family>()
where
    IpAddr: From<A>,
{
    prepare::<A>();
    let mut node = node(true);
    let backend = (A::LOCAL, 8080);
    let [inside, outside @ ..] = A::frontends();
    for transport in SERVED {
        for (port, frontend) in (40_000..).zip(outside) {
            let client = (A::OUTSIDER, port);
            let request = Packet::new(transport, client, frontend);
            let sent = node.ingress(&request.frame());
            let at_backend = request.from(seen(&sent)).to(backend).forwarded();
            assert_eq!(at_backend.source.0, A::NODE);
            assert_eq!(sent, Verdict::Redirect(at_backend.frame()));
            let reply = at_backend.answer();
            let restored = reply.from(frontend).to(client).forwarded();
            let answered = node.ingress(&reply.frame());
            assert_eq!(answered, Verdict::Redirect(restored.frame()));
        }
        // A pod of this node, and whoever comes by the ClusterIP, is answered by this node anyway.
        for (client, frontend) in [(A::POD, outside[0]), (A::OUTSIDER, inside)] {
            let request = Packet::new(transport, (client, 41_000), frontend);
            let kept = Verdict::Pass(request.to(backend).frame());
            assert_eq!(node.ingress(&request.frame()), kept);
        }
    }
}

both_families!(an_open_connection_keeps_its_source in in_network);
fn an_open_connection_keeps_its_source<A: Family>()
where
    IpAddr: From<A>,
{
    prepare::<A>();
    let mut node = node(true);
    let [_, frontend, _] = A::frontends();
    let request = |port| Packet::new(Transport::Udp, (A::OUTSIDER, port), frontend);
    let sent = node.ingress(&request(40_000).frame());
    let at_backend = request(40_000).from(seen(&sent)).to((A::LOCAL, 8080));
    node.apply(&cluster(Backends::Here));
    for (port, expected) in [
        (40_000, Verdict::Redirect(at_backend.forwarded().frame())),
        (
            40_001,
            Verdict::Pass(request(40_001).to((A::LOCAL, 8080)).frame()),
        ),
    ] {
        assert_eq!(node.ingress(&request(port).frame()), expected, "{port}");
    }
}

both_families!(where_replies_meet_no_program_the_backend_sees_the_client in in_network);
fn where_replies_meet_no_program_the_backend_sees_the_client<A: Family>()
where
    IpAddr: From<A>,
{
    prepare::<A>();
    let mut node = node(false);
    for transport in SERVED {
        for (port, frontend) in (40_000..).zip(A::frontends()) {
            let request = Packet::new(transport, (A::OUTSIDER, port), frontend);
            let kept = Verdict::Pass(request.to((A::LOCAL, 8080)).frame());
            assert_eq!(node.ingress(&request.frame()), kept);
        }
    }
}
