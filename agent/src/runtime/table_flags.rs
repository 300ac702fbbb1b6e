//! Which flag of the agent's sizes which table: the datapath names tables, and people set flags.

use shunt_common::registry::Size;
use shunt_datapath::TableError;

/// The flag that says how many entries a table of this size has, if one does.
const fn flag(size: Size) -> Option<&'static str> {
    match size {
        Size::Frontends => Some("--max-frontends"),
        Size::Slots => Some("--max-slots"),
        Size::Backends => Some("--max-backends"),
        Size::Conntrack => Some("--max-conntrack"),
        Size::Affinity => Some("--max-affinity"),
        Size::SourceRanges => Some("--max-source-ranges"),
        Size::Fragments => Some("--max-fragments"),
        Size::Services | Size::Traffic => Some("--max-services"),
        Size::Redirect | Size::Xdp | Size::Fixed => None,
    }
}

/// What to do where a table of this size is too small.
pub(crate) fn advice(size: Size) -> Option<String> {
    let flag = flag(size)?;
    Some(format!(
        "the next start with a larger {flag} makes room, and interrupts nothing"
    ))
}

/// The error, and what to do against it.
pub(crate) fn with_advice(error: &TableError) -> String {
    let advice = match error {
        TableError::Full { table, .. } => advice(*table),
        TableError::TooManyBackends { .. } | TableError::Kernel { .. } => None,
    };
    match advice {
        Some(advice) => format!("{error}; {advice}"),
        None => error.to_string(),
    }
}
