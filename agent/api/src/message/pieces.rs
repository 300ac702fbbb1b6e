//! Snapshots in pieces: what is too large for one message.

use prost::Message as _;

use shunt_model::{EventError, RendererEvent, ServiceList, Snapshot, unchecked::Line};

use crate::{
    message::{encode::service, shape},
    proto,
};

/// A piece is not much larger, unless a single service is.
const PIECE_BYTES: usize = 1 << 20;

/// Puts a snapshot together. The pieces are concatenated.
#[derive(Debug, Default)]
pub struct SnapshotBuilder {
    services: ServiceList,
    node_ips: Vec<String>,
    frontend_ifs: Vec<String>,
    backend_ifs: Vec<String>,
}

impl SnapshotBuilder {
    /// Adds a piece.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it; the snapshot is then of no use.
    pub fn add(&mut self, piece: &proto::Snapshot) -> Result<(), EventError> {
        let proto::Snapshot {
            node_ips,
            services,
            frontend_ifs,
            backend_ifs,
        } = piece;
        let known = self.services.services.len();
        self.services.extend(shape::services(services, known)?)?;
        self.node_ips.extend_from_slice(node_ips);
        self.frontend_ifs.extend_from_slice(frontend_ifs);
        self.backend_ifs.extend_from_slice(backend_ifs);
        Ok(())
    }

    /// The Resync, when all pieces were added.
    ///
    /// # Errors
    ///
    /// An address or an interface is wrong.
    pub fn finish(self) -> Result<RendererEvent, EventError> {
        let Self {
            services,
            node_ips,
            frontend_ifs,
            backend_ifs,
        } = self;
        let line = Line {
            node_ips: Some(shape::texts(&node_ips)),
            services: Some(Vec::new()),
            frontend_ifs: Some(shape::texts(&frontend_ifs)),
            backend_ifs: Some(shape::texts(&backend_ifs)),
            ..Line::of("Resync")
        };
        let mut event = RendererEvent::try_from(line)?;
        if let RendererEvent::Resync(snapshot) = &mut event {
            snapshot.services = services.services;
        }
        Ok(event)
    }
}

/// The snapshot in pieces, at least one. The first has the nodes and the interfaces, every one has
/// some of the services.
pub fn pieces(snapshot: Snapshot) -> impl Iterator<Item = proto::Snapshot> {
    let Snapshot {
        node_ips,
        services,
        frontend_ifs,
        backend_ifs,
    } = snapshot;
    let mut first = Some(proto::Snapshot {
        node_ips: node_ips.iter().map(ToString::to_string).collect(),
        services: Vec::new(),
        frontend_ifs: frontend_ifs.into_iter().collect(),
        backend_ifs: backend_ifs.into_iter().collect(),
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
