//! The options of a datacenter's part in a federation.

use std::path::PathBuf;

use thiserror::Error;

use crate::local::{federation::token::TokenError, store::StoreError};

/// Options of this agent's part.
#[derive(Debug, Clone)]
pub struct FederationOptions {
    /// Its datacenter.
    pub datacenter: String,
    /// The primary datacenter; the own one: this agent keeps the records of all.
    pub primary: String,
    /// Addresses, HOST:PORT, that lead to the primary, for a secondary.
    pub gateways: Vec<String>,
    /// The tokens of datacenters.
    pub token_file: PathBuf,
    /// The file in which the records outlive the agent.
    pub state: PathBuf,
    /// True if another agent publishes this datacenter's gateways.
    pub only_reads: bool,
}

/// The federation cannot begin.
#[derive(Debug, Error)]
pub enum FederationError {
    /// The records cannot be read.
    #[error("--federation-state: {0}")]
    Store(#[from] StoreError),
    /// The kept content makes no sense.
    #[error(
        "--federation-state: {} is damaged: {source}; nothing was changed: move it away to begin without \
         it", path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// The error, with its place.
        source: serde_json::Error,
    },
    /// There is no token.
    #[error("--federation-token-file: {0}")]
    Token(#[from] TokenError),
    /// There is no thread for it.
    #[error("cannot start the thread of the federation: {0}")]
    Threads(std::io::Error),
}
