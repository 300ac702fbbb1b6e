//! A Resync of a client, beside the source that an agent follows.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Result, ensure};

use crate::binary::agent_binary;

/// The first line is a Resync with two services.
const EXAMPLE: &str = include_str!("../../docs/example-events.jsonl");

/// Has the agent at `socket` apply a Resync, which it has to refuse as one of a source that has the last word and
/// names itself `source`.
///
/// # Errors
///
/// The Resync takes effect, or is refused for another reason.
pub fn refuse_foreign_resync(socket: &Path, source: &str) -> Result<()> {
    let mut child = Command::new(agent_binary())
        .args(["apply", "-", "--socket"])
        .arg(socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let resync = EXAMPLE.lines().next().unwrap_or_default();
    if let Some(mut input) = child.stdin.take() {
        input.write_all(resync.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let words = format!("error: line 1: the agent is {source}");
    ensure!(
        output.status.code() == Some(1) && errors.starts_with(&words),
        "not refused: {output:?}"
    );
    Ok(())
}
