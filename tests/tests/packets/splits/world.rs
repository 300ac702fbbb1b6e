//! A service `web` that shares its connections out, and a service `web-canary` that it may name.

use shunt_datapath::RejectLimit;

use crate::{
    frame::{Packet, Transport, destination},
    node::{Node, Verdict, resync, update, web},
    reports::unreachable,
};

pub(crate) const CLUSTER_IP: ([u8; 4], u16) = ([10, 96, 0, 1], 80);

/// The endpoints of `web`, and of `web-canary`.
pub(crate) const OLD: [(u8, u32); 2] = [(3, 1), (4, 1)];
pub(crate) const NEW: [(u8, u32); 1] = [(7, 1)];

/// A split in this mode among services of the default namespace, by their weights.
pub(crate) fn split(mode: &str, backends: &[(&str, u32)]) -> String {
    let backends: Vec<String> = backends
        .iter()
        .map(|(name, weight)| {
            format!(
                r#"{{"service":{{"namespace":"default","name":"{name}"}},"port":80,"weight":{weight}}}"#
            )
        })
        .collect();
    format!(r#"{{"mode":"{mode}","backends":[{}]}}"#, backends.join(","))
}

/// `web` with this split of both its ports, and fields besides.
pub(crate) fn splitting(split: &str, fields: &str) -> String {
    web(&OLD).replace(
        r#""ports":"#,
        &format!(r#""splits":{{"tcp":{split},"udp":{split}}},{fields}"ports":"#),
    )
}

/// `web` with so much weight for itself and for `web-canary`.
pub(crate) fn weighing(old: u32, new: u32) -> String {
    splitting(&split("strict", &[("web", old), ("web-canary", new)]), "")
}

/// The cluster, whose service refuses one connection for so many that it serves.
pub(crate) fn partly_refused(cluster: &str, served: u32) -> String {
    let web = split("strict", &[("web", served)]);
    let split = web.replace("]}", r#",{"invalid":"no such kind"}]}"#);
    cluster.replacen(
        r#""ports""#,
        &format!(r#""splits":{{"TCP":{split},"UDP":{split},"SCTP":{split}}},"ports""#),
        1,
    )
}

/// The other service, with these endpoints.
pub(crate) fn canary(backends: &[(u8, u32)]) -> String {
    web(backends)
        .replace(r#""name":"web""#, r#""name":"web-canary""#)
        .replace("10.96.0.1", "10.96.0.2")
        .replace("203.0.113.7", "203.0.113.8")
        .replace("30080", "30081")
}

/// A node with room for a few hundred thousand connections, which rejects without a limit.
pub(crate) fn node(web: &str, canary: &str) -> Node {
    Node::with(
        |options| {
            options.sizes.slots = 16_384;
            options.sizes.backends = 256;
            options.sizes.conntrack = 1 << 20;
            options.rejects = RejectLimit { rate: 0 };
        },
        [resync(&[web, canary]).as_str()],
    )
}

/// The services become these.
pub(crate) fn tell(node: &mut Node, service: &str) {
    node.apply(&update(service));
}

/// The backend, by its last byte, that a packet gets; `None` if it is refused.
#[track_caller]
pub(crate) fn backend_of(node: &mut Node, packet: &Packet<[u8; 4]>) -> Option<u8> {
    match node.rejecting_ingress(&packet.frame()) {
        Verdict::Pass(frame) => Some(destination(&frame).0[3]),
        refused => {
            assert_eq!(refused, Verdict::Redirect(unreachable(packet)));
            None
        }
    }
}

/// The backend of a packet of a pod to the ClusterIP.
#[track_caller]
pub(crate) fn chosen(node: &mut Node, transport: Transport, client: ([u8; 4], u16)) -> Option<u8> {
    backend_of(node, &Packet::new(transport, client, CLUSTER_IP))
}

/// Fails if `observed` of `count` draws with this probability is 5 standard deviations off: by chance
/// once in 1.7 million.
#[track_caller]
pub(crate) fn assert_share(observed: u32, count: u32, probability: f64) {
    let count = f64::from(count);
    let expected = count * probability;
    let deviation = (count * probability * (1.0 - probability)).sqrt();
    let off = (f64::from(observed) - expected).abs();
    assert!(
        off <= 5.0 * deviation,
        "{observed} of {count}, expected {expected:.0}"
    );
}
