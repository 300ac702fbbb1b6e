//! A client's datagrams to a backend itself, beside a flow through a service from the same port.

use super::{
    both_families,
    frame::{Packet, Transport, source_of},
    node::{Verdict, update},
    world::{Backends, Family, in_network, ip, node_with},
};

use Transport::Udp;

both_families!(a_direct_datagram_beside_a_services_flow_goes_on_from_another_port in in_network);
fn a_direct_datagram_beside_a_services_flow_goes_on_from_another_port<A: Family>() {
    for redirect in [false, true] {
        let mut node = node_with(|options| options.redirect = redirect, Backends::Here);
        let client = (A::OUTSIDER, 40_000);
        let backend = (A::LOCAL, 8080);
        let through = Packet::new(Udp, client, (A::CLUSTER_IP, 80));
        let direct = through.to(backend);
        // While the service has no such flow, nothing is touched.
        let sent = node.ingress(&direct.frame());
        assert_eq!(sent, Verdict::Pass(direct.frame()));
        for _ in 0..2 {
            let sent = node.ingress(&through.frame());
            assert_eq!(sent, Verdict::Pass(direct.frame()));
        }
        let mut moved = None;
        for _ in 0..3 {
            let sent = node.ingress(&direct.frame()).passed();
            let source = source_of::<A>(&sent);
            assert_eq!(source.0, client.0);
            assert_ne!(source, client, "{redirect}");
            assert_eq!(*moved.get_or_insert(source), source);
            // Each answer comes from where its request went.
            let answer = Packet::new(Udp, backend, source);
            let frame = node.ingress(&answer.frame()).passed();
            let got = node.egress(&frame);
            assert_eq!(got, Verdict::Pass(answer.to(client).frame()), "{redirect}");
            let answer = Packet::new(Udp, backend, client);
            let got = node.egress(&answer.frame());
            assert_eq!(got, Verdict::Pass(answer.from((A::CLUSTER_IP, 80)).frame()));
        }
    }
}

both_families!(a_direct_datagram_ends_the_flow_of_a_service_that_is_gone in in_network);
fn a_direct_datagram_ends_the_flow_of_a_service_that_is_gone<A: Family>() {
    let mut node = node_with(|_| (), Backends::Here);
    let (address, other) = (ip(A::LOCAL), ip(A::LOCAL_TOO));
    node.apply(&update(&format!(
        r#"{{"id":{{"namespace":"default","name":"gone"}},"cluster_ips":[],"external_ips":["{address}"],"ports":{{"udp":{{"protocol":"UDP","port":8080}}}},"backends":{{"udp":[{{"ip":"{other}","port":9090,"local":true}}]}}}}"#,
    )));
    let client = (A::OUTSIDER, 40_000);
    let through = Packet::new(Udp, client, (A::CLUSTER_IP, 80));
    let direct = through.to((A::LOCAL, 8080));
    let sent = node.ingress(&through.frame());
    assert_eq!(sent, Verdict::Pass(direct.frame()));
    let sent = node.ingress(&direct.frame());
    let served = through.to((A::LOCAL_TOO, 9090));
    assert_eq!(sent, Verdict::Pass(served.frame()), "while it is there");
    node.apply(r#"{"event":"DeleteService","id":{"namespace":"default","name":"gone"}}"#);
    node.reclaim();
    for _ in 0..2 {
        let sent = node.ingress(&direct.frame()).passed();
        let moved = (A::OUTSIDER, source_of::<A>(&sent).1);
        assert_ne!(moved, client);
        assert_eq!(sent, direct.from(moved).frame());
    }
}

both_families!(datagrams_that_clash_with_no_flow_stay_as_they_are in in_network);
fn datagrams_that_clash_with_no_flow_stay_as_they_are<A: Family>() {
    let mut node = node_with(|_| (), Backends::Here);
    let client = (A::OUTSIDER, 40_000);
    let backend = (A::LOCAL, 8080);
    let through = Packet::new(Udp, client, (A::CLUSTER_IP, 80));
    node.ingress(&through.frame());
    let others = [
        ((A::OUTSIDER, 40_001), backend),
        (client, (A::LOCAL, 8081)),
        ((A::NODE, 40_000), backend),
    ];
    for (from, to) in others {
        let packet = Packet::new(Udp, from, to);
        let sent = node.ingress(&packet.frame());
        assert_eq!(sent, Verdict::Pass(packet.frame()));
    }
}
