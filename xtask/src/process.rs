//! Child processes: each one is shown or named when it fails.

use std::{
    ffi::OsStr,
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, bail};

/// Runs a command to its end with its output passed through; anything but success is an error that
/// holds the command as one would type it.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command
        .status()
        .with_context(|| format!("cannot run `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// As [`run`], for a step that may take long: prints its purpose, and afterwards how long it took.
pub(crate) fn step(what: &str, command: &mut Command) -> Result<()> {
    timed(what, command, run)
}

/// As [`step`], for a command that talks much: its output is shown only if it fails.
pub(crate) fn quiet_step(what: &str, command: &mut Command) -> Result<()> {
    timed(what, command, |command| {
        let shown = show(command);
        let output = command
            .output()
            .with_context(|| format!("cannot run `{shown}`"))?;
        if !output.status.success() {
            eprint!("{}", String::from_utf8_lossy(&output.stdout));
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            bail!("`{shown}` failed ({})", output.status);
        }
        Ok(())
    })
}

/// Shows a command, what it is for, and how long it took.
fn timed(
    what: &str,
    command: &mut Command,
    run: impl FnOnce(&mut Command) -> Result<()>,
) -> Result<()> {
    eprintln!("{what}: {}", show(command));
    let start = Instant::now();
    run(command)?;
    eprintln!("{what}: done in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Returns the output of a command, without the white space around it; its errors are not shown.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed ({})", output.status);
    }
    let text = String::from_utf8(output.stdout)
        .with_context(|| format!("`{shown}` printed something other than text"))?;
    Ok(text.trim().to_owned())
}

/// Becomes the command, so that signals reach it and its exit status is ours. Returns only if that
/// fails.
pub(crate) fn exec(command: &mut Command) -> Result<()> {
    let shown = show(command);
    Err(command.exec()).with_context(|| format!("cannot run `{shown}`"))
}

/// The command as one would type it, with the variables set for it.
fn show(command: &Command) -> String {
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quote(value?))));
    let words = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(quote);
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

/// A word for the shell: in quotes if it holds anything that the shell reads as more than itself.
fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("cargo");
        command
            .env("LLVM_PREFIX", "/usr/lib/llvm")
            .args(["install", "a b", "it's", ""]);
        assert_eq!(
            show(&command),
            r"LLVM_PREFIX=/usr/lib/llvm cargo install 'a b' 'it'\''s' ''"
        );
    }

    #[test]
    fn a_failure_names_the_command() {
        let error = run(Command::new("false").arg("x")).unwrap_err();
        assert!(error.to_string().starts_with("`false x` failed"), "{error}");
        let error = output(&mut Command::new("/nonexistent/tool")).unwrap_err();
        assert_eq!(error.to_string(), "cannot run `/nonexistent/tool`");
    }
}
