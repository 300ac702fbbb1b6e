//! `cargo xtask deny`: the rules of `deny.toml` for the dependencies.

use std::process::Command;

use anyhow::Result;

use crate::{process, setup, workspace};

pub(crate) fn main() -> Result<()> {
    let root = workspace::root()?;
    let program = setup::deny::ensure(&root)?;
    let deny = || {
        let mut command = Command::new(&program);
        command.current_dir(&root).arg("--locked");
        command
    };
    let check = ["check", "--hide-inclusion-graph"];
    process::run(deny().args(check).args(["licenses", "bans", "sources"]))?;
    // RustSec's database is a git repository, which a machine with package registries alone does
    // not reach.
    match process::output(deny().args(["fetch", "db"])) {
        Ok(_) => process::run(deny().args(check).arg("advisories")),
        Err(error) => {
            eprintln!(
                "\ndeny: advisories are NOT checked, their database cannot be had: {error:#}"
            );
            Ok(())
        }
    }
}
