//! Flags, and values of flags, that `shunt agent` once took.
//!
//! The agent rejects each by name with a remedy, on the command line and in the file of `--config`, whose keys
//! are flags. A row here needs one in CHANGELOG.md.

use std::{ffi::OsString, fmt};

use thiserror::Error;

/// A flag, or a value of a flag, that the agent no longer takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retired {
    /// The long name without its dashes, which is the key in a file as well.
    flag: &'static str,
    /// The value that was removed, of a flag that is still there; `None` if the flag itself was removed.
    value: Option<&'static str>,
    /// The remedy, an order that begins with a verb.
    instead: &'static str,
}

/// Returns a flag that was removed.
const fn flag(flag: &'static str, instead: &'static str) -> Retired {
    Retired {
        flag,
        value: None,
        instead,
    }
}

const FIXED_TIMEOUT: &str = "remove it: this time is fixed, and docs/conntrack.md has it";

/// All flags and values that were removed.
const RETIRED: &[Retired] = &[
    flag("conntrack-tcp-timeout-syn-sent", FIXED_TIMEOUT),
    flag("conntrack-tcp-timeout-syn-recv", FIXED_TIMEOUT),
    flag("conntrack-tcp-timeout-new", FIXED_TIMEOUT),
    flag("conntrack-sctp-timeout-new", FIXED_TIMEOUT),
    flag("conntrack-sctp-timeout-established", FIXED_TIMEOUT),
    flag("conntrack-sctp-timeout-closing", FIXED_TIMEOUT),
    flag("conntrack-sctp-timeout-closed", FIXED_TIMEOUT),
];

impl fmt::Display for Retired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            flag: _,
            value,
            instead,
        } = self;
        match value {
            Some(value) => write!(f, "the value `{value}` is gone: {instead}"),
            None => write!(f, "this flag is gone: {instead}"),
        }
    }
}

/// A command line with a flag or value that was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("--{flag}: {0}", flag = .0.flag)]
pub(crate) struct RetiredError(&'static Retired);

/// Finds the row of a flag with this value, by the flag's long name without its dashes.
pub(crate) fn find(flag: &str, value: Option<&str>) -> Option<&'static Retired> {
    find_in(RETIRED, flag, value)
}

fn find_in<'a>(retired: &'a [Retired], flag: &str, value: Option<&str>) -> Option<&'a Retired> {
    retired
        .iter()
        .find(|one| one.flag == flag && (one.value.is_none() || one.value == value))
}

/// Rejects a command line of `shunt agent` with a flag or value that was removed. Accepts those of other commands.
///
/// # Errors
///
/// If there is such a flag or value.
pub(crate) fn refuse(arguments: &[OsString]) -> Result<(), RetiredError> {
    match gone(RETIRED, arguments) {
        Some(retired) => Err(RetiredError(retired)),
        None => Ok(()),
    }
}

/// Finds the first flag or value that was removed.
fn gone<'a>(retired: &'a [Retired], arguments: &[OsString]) -> Option<&'a Retired> {
    let [_program, command, rest @ ..] = arguments else {
        return None;
    };
    if command != "agent" {
        return None;
    }
    let words: Vec<_> = rest.iter().map(|word| word.to_string_lossy()).collect();
    words.iter().enumerate().find_map(|(at, word)| {
        let word = word.strip_prefix("--")?;
        match word.split_once('=') {
            Some((flag, value)) => find_in(retired, flag, Some(value)),
            None => find_in(retired, word, words.get(at + 1).map(AsRef::as_ref)),
        }
    })
}

#[cfg(test)]
mod tests;
