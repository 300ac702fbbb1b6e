//! What keeps an operator's will, and asks for it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, value_parser};
use shunt::Steering;

/// The file's name, in the directory of the agent's socket.
const FILE: &str = "overrides.json";

/// What an operator has said, and what one is asked.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Operators")]
pub(crate) struct OperatorArgs {
    /// The file that keeps what `shunt drain` and `shunt weight` have said, one agent's [default:
    /// overrides.json, in the directory of the socket]
    #[arg(long, value_name = "FILE")]
    overrides: Option<PathBuf>,

    /// An event that would remove more than this share of all frontends waits for `shunt confirm` or `shunt
    /// discard`, and later ones behind it; a Resync comes in its place [default: none waits]
    #[arg(long, value_name = "PERCENT", value_parser = value_parser!(u8).range(0..=100))]
    pub(crate) max_removal: Option<u8>,
}

impl OperatorArgs {
    /// What was said before, of the agent with this socket.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or makes no sense.
    pub(crate) fn steering(&self, socket: &Path) -> Result<Steering> {
        let file = self
            .overrides
            .clone()
            .unwrap_or_else(|| socket.with_file_name(FILE));
        Ok(Steering::open(file)?)
    }
}
