//! From the messages of a stream to events: a Resync may take several.

use shunt_model::{EventError, Fault, RendererEvent, SnapshotBuilder};

use crate::{
    message::{decode::decode, unchecked},
    proto::{SnapshotPiece, StreamRequest, stream_request::Event},
};

/// Puts the pieces of snapshots together and passes all other events on.
#[derive(Debug, Default)]
pub struct Assembler {
    /// A snapshot of which more is to come, or what was wrong with it so far.
    unfinished: Option<Result<SnapshotBuilder, EventError>>,
}

impl Assembler {
    /// The events that are complete with this message: none, one, or two if it is no piece of the
    /// snapshot that is under way.
    pub fn next(&mut self, message: StreamRequest) -> Vec<Result<RendererEvent, EventError>> {
        let StreamRequest { event } = message;
        match event {
            Some(Event::Resync(piece)) => self.piece(&piece).into_iter().collect(),
            other => {
                let event = other
                    .ok_or_else(|| Fault::MissingField("event").into())
                    .and_then(|event| decode(&event));
                self.finish().into_iter().chain([event]).collect()
            }
        }
    }

    /// At the end of the stream: the snapshot that it cut off, if any, which is refused.
    pub fn finish(&mut self) -> Option<Result<RendererEvent, EventError>> {
        let refused = |_| Err(Fault::UnfinishedSnapshot.into());
        self.unfinished
            .take()
            .map(|snapshot| snapshot.and_then(refused))
    }

    /// The Resync that is complete with this piece.
    pub fn piece(&mut self, piece: &SnapshotPiece) -> Option<Result<RendererEvent, EventError>> {
        let SnapshotPiece {
            snapshot,
            more,
            over_source: _,
        } = piece;
        let so_far = self.unfinished.take().unwrap_or_else(|| Ok(<_>::default()));
        let now = so_far.and_then(|mut builder| {
            let snapshot = snapshot.as_ref().ok_or(Fault::MissingField("snapshot"))?;
            let known = (builder.service_count(), builder.workload_count());
            builder.add(unchecked::snapshot(snapshot, known)?)?;
            Ok(builder)
        });
        if *more {
            self.unfinished = Some(now);
            return None;
        }
        Some(now.map(|builder| RendererEvent::Resync(builder.finish())))
    }
}
