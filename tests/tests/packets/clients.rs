//! Decisions by the client: this node's clients under policy Local, source ranges.

use super::{
    frame::{Packet, Transport, destination},
    needs_root,
    node::{NODE, Node, OTHER_NODE, Verdict, resync, update},
};

const POD: [u8; 4] = [10, 1, 1, 9];
const OUTSIDE: [u8; 4] = [198, 51, 100, 5];
const BALANCED: [u8; 4] = [203, 0, 113, 9];

/// default/web at 203.0.113.7, at the load balancer's 203.0.113.9 and node port 30080, with
/// 10.1.1.3 on this node, if `local`, and 10.1.2.3 elsewhere; `fields` besides.
fn web(local: bool, fields: &str) -> String {
    let here = if local {
        r#"{"ip":"10.1.1.3","port":8080,"local":true},"#
    } else {
        ""
    };
    format!(
        r#"{{"id":{{"namespace":"default","name":"web"}},"external_ips":["203.0.113.7"],"load_balancer_ips":["203.0.113.9"],{fields},"ports":{{"http":{{"protocol":"TCP","port":80,"node_port":30080}}}},"backends":{{"http":[{here}{{"ip":"10.1.2.3","port":8080}}]}}}}"#
    )
}

const LOCAL: &str = r#""traffic_policy":"Local""#;

fn send(node: &mut Node, client: [u8; 4], port: u16, frontend: ([u8; 4], u16)) -> Verdict {
    node.ingress(&Packet::new(Transport::TcpSyn, (client, port), frontend).frame())
}

#[test]
fn policy_local_serves_clients_on_this_node_as_policy_cluster_does() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(true, LOCAL)]).as_str()]);
    for frontend in [([203, 0, 113, 7], 80), (BALANCED, 80), (NODE, 30080)] {
        let mut of = |client, ports: std::ops::Range<u16>| -> Vec<[u8; 4]> {
            let mut chosen: Vec<_> = ports
                .map(|port| destination(&send(&mut node, client, port, frontend).passed()).0)
                .collect();
            chosen.sort_unstable();
            chosen.dedup();
            chosen
        };
        let both = [[10, 1, 1, 3], [10, 1, 2, 3]];
        assert_eq!(of(POD, 1000..1100), both, "a pod at {frontend:?}");
        assert_eq!(of(NODE, 1000..1100), both, "the node at {frontend:?}");
        assert_eq!(
            of(OUTSIDE, 1000..1100),
            both[..1],
            "outside at {frontend:?}"
        );
    }
}

#[test]
fn without_a_local_backend_outside_is_dropped_and_this_node_served() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(false, LOCAL)]).as_str()]);
    let frontend = ([203, 0, 113, 7], 80);
    assert_eq!(send(&mut node, OUTSIDE, 1000, frontend), Verdict::Drop);
    let sent = send(&mut node, POD, 1000, frontend).passed();
    assert_eq!(destination(&sent), ([10, 1, 2, 3], 8080));
    let cluster = web(true, r#""traffic_policy":"Cluster""#);
    node.apply(&update(&cluster));
    node.apply(&update(&web(true, LOCAL)));
    node.apply(&update(&cluster));
    assert_eq!(
        node.apply(&resync(&[&cluster])).writes,
        0,
        "nothing is left of policy Local"
    );
}

#[test]
fn another_nodes_node_port_is_for_this_node_too() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(true, r#""traffic_policy":"Cluster""#)]).as_str()]);
    for client in [POD, NODE] {
        let sent = send(&mut node, client, 1000, (OTHER_NODE, 30080)).passed();
        assert_eq!(destination(&sent).1, 8080);
    }
}

#[test]
fn only_clients_in_a_source_range_use_a_load_balancer_address() {
    needs_root!();
    let ranges = |list: &str| {
        web(
            true,
            &format!(r#"{LOCAL},"load_balancer_source_ranges":[{list}]"#),
        )
    };
    let mut node = Node::new([resync(&[&ranges(r#""198.51.100.0/29""#)]).as_str()]);
    let mut port = 1000;
    let mut expect = |node: &mut Node, allowed: &[[u8; 4]], refused: &[[u8; 4]]| {
        port += 1;
        for client in allowed {
            let sent = send(node, *client, port, (BALANCED, 80)).passed();
            assert_eq!(destination(&sent).1, 8080, "{client:?} is allowed");
        }
        for client in refused {
            let sent = send(node, *client, port, (BALANCED, 80));
            assert_eq!(sent, Verdict::Drop, "{client:?} is refused");
        }
        for client in allowed.iter().chain(refused) {
            let sent = send(node, *client, port, ([203, 0, 113, 7], 80)).passed();
            assert_eq!(
                destination(&sent).1,
                8080,
                "an ExternalIP is open to {client:?}"
            );
        }
    };
    let neighbour = [198, 51, 100, 8];
    expect(&mut node, &[OUTSIDE], &[neighbour, POD, NODE]);
    assert_eq!(node.counters()["drop_source_range"], 3);
    node.apply(&update(&ranges(r#""198.51.100.8/32","10.1.0.0/16""#)));
    expect(&mut node, &[neighbour, POD], &[OUTSIDE, NODE]);
    node.reclaim();
    let same = ranges(r#""10.1.0.0/16","198.51.100.8/32""#);
    assert_eq!(
        node.apply(&resync(&[&same])).writes,
        0,
        "nothing is written twice"
    );
    node.apply(&update(&ranges(r#""10.0.0.0/8","0.0.0.0/0""#)));
    expect(&mut node, &[OUTSIDE, neighbour, POD, NODE], &[]);
    node.apply(&update(&ranges(r#""2001:db8::/32""#)));
    expect(&mut node, &[OUTSIDE, neighbour, POD, NODE], &[]);
}

#[test]
fn an_open_connection_stays_when_its_client_is_shut_out() {
    needs_root!();
    let ranges = |list: &str| {
        web(
            true,
            &format!(r#"{LOCAL},"load_balancer_source_ranges":[{list}]"#),
        )
    };
    let mut node = Node::new([resync(&[&ranges(r#""198.51.100.0/24""#)]).as_str()]);
    let syn = Packet::new(Transport::TcpSyn, (OUTSIDE, 1000), (BALANCED, 80));
    let at = destination(&node.ingress(&syn.frame()).passed());
    node.apply(&update(&ranges(r#""192.0.2.0/24""#)));
    let segment = syn.with(Transport::TcpAck);
    assert_eq!(
        node.ingress(&segment.frame()),
        Verdict::Pass(segment.to(at).frame())
    );
    assert_eq!(
        send(&mut node, OUTSIDE, 1001, (BALANCED, 80)),
        Verdict::Drop
    );
}
