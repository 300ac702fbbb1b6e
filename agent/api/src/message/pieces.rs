//! Snapshots in pieces: what is too large for one message.

use prost::Message as _;

use shunt_model::Snapshot;

use crate::{
    message::service::{nodes, service},
    proto,
};

/// A piece is not much larger, unless a single service is.
const PIECE_BYTES: usize = 1 << 20;

/// The snapshot in pieces, at least one. The first has the nodes, the interfaces and the
/// ServiceCIDRs, every one has some of the services.
pub fn pieces(snapshot: Snapshot) -> impl Iterator<Item = proto::Snapshot> {
    let Snapshot {
        node_ips,
        services,
        frontend_ifs,
        backend_ifs,
        service_cidrs,
        nodes: of_cluster,
    } = snapshot;
    let mut first = Some(proto::Snapshot {
        node_ips: node_ips.iter().map(ToString::to_string).collect(),
        services: Vec::new(),
        frontend_ifs: frontend_ifs.iter().map(ToString::to_string).collect(),
        backend_ifs: backend_ifs.iter().map(ToString::to_string).collect(),
        service_cidrs: service_cidrs.iter().map(ToString::to_string).collect(),
        nodes: nodes(&of_cluster),
    });
    let mut services = services.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut piece = match first.take() {
            Some(piece) => piece,
            None if services.peek().is_some() => proto::Snapshot::default(),
            None => return None,
        };
        let mut bytes = 0;
        while bytes < PIECE_BYTES
            && let Some(next) = services.next()
        {
            let next = service(&next);
            bytes += next.encoded_len();
            piece.services.push(next);
        }
        Some(piece)
    })
}
