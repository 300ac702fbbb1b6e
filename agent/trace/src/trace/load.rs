//! A dump's tables in the place of the programs' own.

use shunt_programs::{Programs, SetError};

use crate::{
    dump::{
        record::Dump,
        table::{Shape, Table},
    },
    trace::error::TraceError,
};

/// The level of the programs' log, which is none of their own.
const LOG_LEVEL: &str = "AYA_LOG_LEVEL";

/// The programs with these tables.
///
/// # Errors
///
/// If a table or a constant is not one of theirs.
pub(crate) fn load(dump: &Dump) -> Result<Programs, TraceError> {
    let refused = |source| TraceError::Tables {
        version: dump.node.shunt.clone(),
        source,
    };
    let mut programs = Programs::begin();
    for (name, value) in &dump.constants {
        if name != LOG_LEVEL {
            programs.set_constant(name, value).map_err(refused)?;
        }
    }
    for (name, table) in &dump.tables {
        fill(&mut programs, name, table).map_err(refused)?;
    }
    Ok(programs)
}

fn fill(programs: &mut Programs, name: &str, table: &Table) -> Result<(), SetError> {
    match table.shape {
        Shape::Array(count) => programs.resize(name, count)?,
        Shape::Hash => programs.clear(name)?,
    }
    for (key, value) in &table.entries {
        programs.put(name, key, value)?;
    }
    Ok(())
}
