//! The agent's flags for the tables' sizes: the datapath names tables, and people set flags.

use shunt_common::registry::Size;
use shunt_datapath::TableError;

/// The flag for the number of entries of a table of this size, if there is one.
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

/// Returns the advice if a table of this size is too small.
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
