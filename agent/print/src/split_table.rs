//! The split of frontends' connections among services, as a table for people.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use shunt_api::view::{Frontend, Split, SplitBackend};

use crate::table::Table;

/// Writes a line for each backend of the frontends' splits, after an empty one; nothing if none has a split.
/// One that several frontends of a service port have is written once.
///
/// # Errors
///
/// The output cannot be written.
pub fn write_splits(frontends: &[Frontend], output: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(["SERVICE", "PORT", "SPLIT", "BACKEND", "WEIGHT"]);
    let mut written = BTreeSet::new();
    for frontend in frontends {
        let Frontend {
            service: Some(service),
            service_port: Some(port),
            split: Some(Split { mode, backends, .. }),
            ..
        } = frontend
        else {
            continue;
        };
        if !written.insert((service, port)) {
            continue;
        }
        let port = if port.is_empty() { "-" } else { port };
        let mut left = Some([service.clone(), port.to_owned(), mode.to_string()]);
        if backends.is_empty() {
            let [service, port, mode] = left.take().unwrap_or_default();
            table.push([service, port, mode, "none".to_owned(), "-".to_owned()]);
        }
        for SplitBackend { target, weight } in backends {
            let [service, port, mode] = left.take().unwrap_or_default();
            table.push([service, port, mode, target.to_string(), weight.to_string()]);
        }
    }
    if table.is_empty() {
        return Ok(());
    }
    write!(output, "\n{table}")
}
