//! Snapshots in pieces: what is too large for one message.

use prost::Message as _;

use shunt_model::Snapshot;

use crate::{
    message::{
        service::{nodes, service},
        workload::workload,
    },
    proto,
};

/// A piece is not much larger, unless a single service is.
const PIECE_BYTES: usize = 1 << 20;

/// The snapshot in pieces, at least one. The first has the nodes, the interfaces and the
/// ServiceCIDRs, every one has some of the services, or of the workloads after them.
pub fn pieces(snapshot: Snapshot) -> impl Iterator<Item = proto::Snapshot> {
    let Snapshot {
        node_ips,
        services,
        frontend_ifs,
        backend_ifs,
        service_cidrs,
        nodes: of_cluster,
        workloads,
    } = snapshot;
    let mut first = Some(proto::Snapshot {
        node_ips: node_ips.iter().map(ToString::to_string).collect(),
        services: Vec::new(),
        frontend_ifs: frontend_ifs.iter().map(ToString::to_string).collect(),
        backend_ifs: backend_ifs.iter().map(ToString::to_string).collect(),
        service_cidrs: service_cidrs.iter().map(ToString::to_string).collect(),
        nodes: nodes(&of_cluster),
        workloads: Vec::new(),
    });
    let mut services = services.into_iter().peekable();
    let mut workloads = workloads.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut piece = match first.take() {
            Some(piece) => piece,
            None if services.peek().is_some() || workloads.peek().is_some() => {
                proto::Snapshot::default()
            }
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
        while bytes < PIECE_BYTES
            && let Some(next) = workloads.next()
        {
            let next = workload(&next);
            bytes += next.encoded_len();
            piece.workloads.push(next);
        }
        Some(piece)
    })
}
