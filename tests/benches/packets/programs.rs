//! Sizes of the programs.

use anyhow::Result;
use aya::programs::ProgramInfo;

use super::{feeder::Feeder, node::Node};
use crate::report::Facts;

/// Columns of the table of programs.
pub(crate) const COLUMNS: [&str; 5] = [
    "program",
    ">bytes translated",
    ">instructions",
    ">bytes of machine code",
    ">instructions verified",
];

/// Returns the kernel's data on a node's programs, and on those that they are compared with.
///
/// # Errors
///
/// If it reports nothing.
pub(super) fn sizes(node: &mut Node, feeder: &mut Feeder) -> Result<Facts> {
    let mut rows = Vec::new();
    for name in ["empty", "trivial", "floor"] {
        rows.push(row(name, &feeder.program(name)?.info()?));
    }
    for (name, info) in node.programs()? {
        rows.push(row(name, &info));
    }
    Ok(Facts {
        name: "packets/programs".to_owned(),
        columns: COLUMNS.to_vec(),
        rows,
    })
}

/// A program's row.
pub(crate) fn row(name: &str, info: &ProgramInfo) -> Vec<String> {
    let known = |number: Option<u32>| number.map_or_else(String::new, |number| number.to_string());
    let translated = info.size_translated();
    vec![
        name.to_owned(),
        known(translated),
        // `struct bpf_insn` of linux/bpf.h has 8 bytes.
        known(translated.map(|bytes| bytes / 8)),
        info.size_jitted().to_string(),
        known(info.verified_instruction_count()),
    ]
}
