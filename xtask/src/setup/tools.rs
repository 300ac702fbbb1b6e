//! The programs that the sandbox and the tests call.

use std::process::Command;

use anyhow::{Result, bail};

use super::debian;
use crate::{process, workspace};

/// Makes sure that `ip` is there, with which network namespaces are made.
pub(super) fn ensure() -> Result<()> {
    if process::output(Command::new("ip").arg("-Version")).is_ok() {
        return Ok(());
    }
    if workspace::is_root() && debian::has_apt() {
        return debian::install_packages(&["iproute2"]);
    }
    bail!("`ip` is missing: install the package iproute2 as root");
}
