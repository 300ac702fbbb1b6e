//! This program once more, as a process that does a part of the load.

use std::{env, process::ExitCode};

use anyhow::Result;

/// Does `part` with the rest of the command line, if this process was started for it: if its first
/// argument is `role`.
pub(crate) fn play(role: &str, part: impl FnOnce(&[String]) -> Result<()>) -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next()? != role {
        return None;
    }
    let arguments: Vec<_> = arguments
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    Some(match part(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{role}: {error:#}");
            ExitCode::FAILURE
        }
    })
}
