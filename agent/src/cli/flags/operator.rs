//! The settings for an operator's overrides and decisions.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, value_parser};
use shunt_runtime::Steering;

/// Ending of the file's name, after that of the agent's socket.
const ENDING: &str = ".overrides.json";

/// The file of all agents with sockets in a directory, in earlier versions.
const EARLIER: &str = "overrides.json";

/// An operator's overrides and decisions.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Operators")]
pub(crate) struct OperatorArgs {
    /// File with the overrides of `shunt drain` and `shunt weight`, one agent's [default: that of the socket, with
    /// .overrides.json behind its name]
    #[arg(long, value_name = "FILE")]
    overrides: Option<PathBuf>,

    /// An event that would remove more than this share of all frontends waits for `shunt confirm` or `shunt
    /// discard`, and later ones behind it; a Resync comes in its place [default: none waits]
    #[arg(long, value_name = "PERCENT", value_parser = value_parser!(u8).range(0..=100))]
    pub(crate) max_removal: Option<u8>,
}

impl OperatorArgs {
    /// Returns the earlier overrides of the agent with this socket.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or makes no sense.
    pub(crate) fn steering(&self, socket: &Path) -> Result<Steering> {
        if let Some(file) = &self.overrides {
            return Ok(Steering::open(file.clone())?);
        }
        let mut file = socket.as_os_str().to_owned();
        file.push(ENDING);
        let earlier = socket.with_file_name(EARLIER);
        Ok(Steering::open_after(file.into(), &earlier)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_with_sockets_in_one_directory_have_overrides_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let args = OperatorArgs {
            overrides: None,
            max_removal: None,
        };
        let socket = |name: &str| folder.path().join(name);
        let _first = args.steering(&socket("a.sock")).unwrap();
        let _second = args.steering(&socket("b.sock")).unwrap();
        let error = args.steering(&socket("a.sock")).unwrap_err().to_string();
        let words = format!(
            "{} are another agent's",
            socket("a.sock.overrides.json").display()
        );
        assert!(error.contains(&words), "{error}");
    }
}
