//! `--masquerade-all`: connections to ClusterIPs go on from this node, whatever the client is.

use shunt_tests::run;

use super::{
    both_families,
    frame::Packet,
    needs_root,
    node::Verdict,
    world::{Backends, Family, SERVED, V4, in_network, node_with, open_transit},
};

both_families!(a_pods_connection_to_a_cluster_ip_goes_on_from_this_node);
fn a_pods_connection_to_a_cluster_ip_goes_on_from_this_node<A: Family>() {
    in_network(|| {
        for (range, gateway) in [
            ("10.1.1.0/24", "192.168.16.30"),
            ("fd00:10:1:1::/64", "2001:db8:16::30"),
        ] {
            run("ip", &["route", "add", range, "via", gateway]).unwrap();
        }
        let mut node = node_with(|options| options.masquerade_all = true, Backends::Elsewhere);
        let [inside, outside @ ..] = A::frontends();
        for transport in SERVED {
            let client = (A::POD, 40_000);
            let request = Packet::new(transport, client, inside);
            let at_backend = open_transit(&mut node, &request);
            let reply = at_backend.answer();
            let restored = reply.from(inside).to(client).forwarded();
            assert_eq!(
                node.ingress(&reply.frame()),
                Verdict::Redirect(restored.frame())
            );
            // Others keep their source where the replies come back by themselves.
            for (port, frontend) in (40_001..).zip(outside) {
                let request = Packet::new(transport, (A::POD, port), frontend);
                assert_eq!(
                    node.ingress(&request.frame()),
                    Verdict::Pass(request.to((A::REMOTE, 8080)).frame())
                );
            }
        }
    });
}

#[test]
fn a_pod_that_reaches_itself_sees_the_hairpin_address_all_the_same() {
    needs_root!();
    let mut node = node_with(|options| options.masquerade_all = true, Backends::Here);
    for transport in SERVED {
        let request = Packet::new(transport, (V4::LOCAL, 1000), (V4::CLUSTER_IP, 80));
        let at_backend = request
            .from((V4::HAIRPIN, 1000))
            .to((V4::LOCAL, 8080))
            .forwarded();
        assert_eq!(
            node.ingress(&request.frame()),
            Verdict::Redirect(at_backend.returned_frame())
        );
    }
}
