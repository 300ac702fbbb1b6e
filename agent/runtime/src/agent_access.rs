//! The way of readers to the agent's event loop and tables.

use std::sync::Arc;

use shunt_datapath::{LiveKey, SourceRanges, TableCopies};
use tokio::task::spawn_blocking;

use crate::{
    error::InspectError,
    queue::EventQueue,
    read_back::{
        piece::{Part, Piece, Ranges},
        reader::Access,
    },
    request::Request,
};

/// The way to the agent's event loop and tables.
#[derive(Debug, Clone)]
pub(crate) struct AgentAccess {
    pub(crate) queue: EventQueue,
    pub(crate) copies: Arc<TableCopies>,
}

impl Access for AgentAccess {
    async fn read(&self, part: Part, ranges: Ranges) -> Result<Piece, InspectError> {
        let piece = self.queue.ask(|answer| Request::Read(part, ranges, answer));
        Ok(piece.await??)
    }

    async fn list(&self) -> Result<Vec<LiveKey>, InspectError> {
        let copies = Arc::clone(&self.copies);
        let listed = spawn_blocking(move || copies.frontends()).await?;
        listed.map_err(InspectError::Listing)
    }

    async fn source_ranges(&self) -> Result<SourceRanges, InspectError> {
        let copies = Arc::clone(&self.copies);
        let listed = spawn_blocking(move || copies.source_ranges()).await?;
        listed.map_err(InspectError::Listing)
    }
}
