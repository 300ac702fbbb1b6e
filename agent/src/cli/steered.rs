//! The outcome of an operator's command, in words.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write as _},
    time::Duration,
};

use shunt_api::proto::Applied;
use shunt_print::output;
use shunt_runtime::Outcome;

/// The counts of an event that was applied.
pub(crate) fn outcome(applied: &Applied) -> Outcome {
    let &Applied {
        held: _,
        added,
        changed,
        removed,
        untranslated,
        writes,
        took_us,
        conflicts: _,
        refused: _,
    } = applied;
    Outcome {
        added: added as usize,
        changed: changed as usize,
        removed: removed as usize,
        untranslated: untranslated as usize,
        writes,
        conflicts: Vec::new(),
        left_out: BTreeSet::new(),
        refused: BTreeMap::new(),
        took: Duration::from_micros(took_us),
    }
}

/// Prints what changed.
///
/// # Errors
///
/// The output cannot be written.
pub(crate) fn write_applied(what: &str, applied: &Applied) -> io::Result<()> {
    let text = if applied.held {
        "noted: it has no effect until the first Resync".to_owned()
    } else {
        outcome(applied).to_string()
    };
    output::print(|out| writeln!(out, "{what}: {text}"))
}
