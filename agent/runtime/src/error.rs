//! Reasons why the agent cannot report its state.

use std::{error::Error as StdError, io};

use shunt_datapath::{DatapathError, TableError};
use thiserror::Error;
use tokio::task::JoinError;

/// The event loop has ended, or ends before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the agent is ending")]
pub struct Ending;

/// The agent cannot report its state.
#[derive(Debug, Error)]
pub enum InspectError {
    /// The kernel refused to read a table.
    #[error(transparent)]
    Tables(#[from] TableError),
    /// The kernel refused to list the keys of a table.
    #[error("listing the frontends failed: {0}")]
    Listing(io::Error),
    /// The kernel refused to read the counters.
    #[error("reading the counters failed: {0}")]
    Counters(Box<dyn StdError + Send + Sync>),
    /// The kernel refused to read the connections.
    #[error("reading the connections failed: {0}")]
    Connections(#[from] io::Error),
    /// The programs that report connections and packets cannot be had.
    #[error(transparent)]
    Monitor(DatapathError),
    /// The thread that hands answers to those who follow cannot be started.
    #[error("following failed: {0}")]
    Follow(io::Error),
    /// The kernel refused to read what a dump has.
    #[error("dumping the node's tables and network failed: {0}")]
    Dump(io::Error),
    /// The agent is ending and does not answer any more.
    #[error(transparent)]
    Ending(#[from] Ending),
}

impl From<JoinError> for InspectError {
    /// The thread that read the connections panicked, or was ended.
    fn from(error: JoinError) -> Self {
        Self::Connections(error.into())
    }
}
