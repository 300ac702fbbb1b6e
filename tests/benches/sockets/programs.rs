//! Sizes of the programs.

use anyhow::{Context as _, Result};
use aya::programs::ProgramInfo;

use super::node::Node;
use crate::{packets::programs, report::Facts};

/// The programs at system calls, by their pins.
const PROGRAMS: [&str; 8] = [
    "sock_connect4",
    "sock_connect6",
    "sock_sendmsg4",
    "sock_sendmsg6",
    "sock_recvmsg4",
    "sock_recvmsg6",
    "sock_getpeername4",
    "sock_getpeername6",
];

/// Returns the kernel's data on them.
///
/// # Errors
///
/// If it reports nothing.
pub(super) fn sizes(node: &Node) -> Result<Facts> {
    let pins = node.subject().pins().context("the node has no agent")?;
    let mut rows = Vec::new();
    for name in PROGRAMS {
        let path = pins.path().join("programs").join(name);
        let info = ProgramInfo::from_pin(&path).with_context(|| format!("no {name}"))?;
        rows.push(programs::row(name, &info));
    }
    Ok(Facts {
        name: "sockets/programs".to_owned(),
        columns: programs::COLUMNS.to_vec(),
        rows,
    })
}
