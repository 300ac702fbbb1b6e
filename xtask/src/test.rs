//! `cargo xtask test`: all tests, or those that need no root.

use std::time::Instant;

use anyhow::{Result, bail};

use crate::{process, setup, workspace};

/// The packages whose tests need neither root nor a kernel.
const QUICK: [&str; 3] = ["shunt", "shunt-common", "xtask"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only what needs no root: no packets, no namespaces
    #[arg(long)]
    quick: bool,
    /// Further arguments for `cargo test`, such as a filter
    #[arg(last = true)]
    rest: Vec<String>,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let Args { quick, rest } = args;
    if !quick && !workspace::is_root() {
        bail!(
            "the packet and end-to-end tests need root: type `cargo xtask test` as root, or \
             `cargo xtask test --quick` for the tests that do without"
        );
    }
    let start = Instant::now();
    let root = workspace::root()?;
    let mut test = workspace::cargo(&root);
    test.arg("test");
    if *quick {
        setup::ensure(setup::Needs::Build)?;
        test.args(QUICK.iter().flat_map(|package| ["--package", package]));
    } else {
        setup::ensure(setup::Needs::Network)?;
        // Without `--package`, cargo builds the dependencies once for this and for the tests.
        process::run(workspace::cargo(&root).args(["build", "--bin", "shunt"]))?;
        test.env("SHUNT_BIN", workspace::output("debug")?.join("shunt"));
    }
    process::run(test.args(rest))?;
    eprintln!("all tests passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
