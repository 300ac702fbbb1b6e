//! `cargo xtask test`: all tests, or those that need no root.

use std::{env, path::Path, process::Command, time::Instant};

use anyhow::{Result, bail};

use crate::{image, kernel, process, revision, setup, workspace};

/// The packages whose tests need neither root nor a kernel.
const QUICK: [&str; 9] = [
    "shunt",
    "shunt-api",
    "shunt-common",
    "shunt-datapath",
    "shunt-image",
    "shunt-model",
    "shunt-toolchain",
    "shunt-trace",
    "xtask",
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only what needs no root: no packets, no namespaces
    #[arg(long)]
    quick: bool,
    /// With the full forms of the tests that have short ones: sieges of minutes, a million packets
    #[arg(long, conflicts_with = "quick")]
    long: bool,
    /// On a kernel of this version, such as 6.1, in a machine of qemu's: the packet tests and some
    /// of the end-to-end tests. May be given more than once; needs Debian's archive, and is slow
    /// without `/dev/kvm`
    #[arg(long, value_name = "VERSION", conflicts_with = "quick", value_parser = version)]
    kernel: Vec<String>,
    /// Further arguments for `cargo test`, such as a filter
    #[arg(last = true)]
    rest: Vec<String>,
}

/// The end-to-end tests that are run once more with the agent's `--redirect`.
const REDIRECT: [&str; 4] = ["changes::", "dual_stack::", "path_mtu::", "translation::"];

pub(crate) fn main(args: &Args) -> Result<()> {
    let Args {
        quick,
        long,
        kernel,
        rest,
    } = args;
    if !kernel.is_empty() {
        return kernel::main(kernel, rest);
    }
    if !quick && !workspace::is_root() {
        bail!(
            "the packet and end-to-end tests need root: type `cargo xtask test` as root, or \
             `cargo xtask test --quick` for the tests that do without"
        );
    }
    let start = Instant::now();
    let root = workspace::root()?;
    let agent = workspace::output("debug")?.join("shunt");
    let mut test = workspace::cargo(&root);
    test.arg("test");
    know_cases(&root, &mut test);
    if *long {
        test.env("SHUNT_LONG", "1");
    }
    if *quick {
        setup::ensure(setup::Needs::Build)?;
        test.args(QUICK.iter().flat_map(|package| ["--package", package]));
    } else {
        setup::ensure(setup::Needs::Test)?;
        // Without `--package`, cargo builds the dependencies once for this and for the tests.
        process::run(workspace::cargo(&root).args(["build", "--bin", "shunt"]))?;
        test.env("SHUNT_BIN", &agent);
        let layout = workspace::output("image")?.join("test");
        image::make(&root, &agent, "shunt:test", &layout, None)?;
        test.env("SHUNT_IMAGE", &layout);
        match revision::agent(&root, revision::UPGRADE_FROM)? {
            Some(earlier) => _ = test.env("SHUNT_EARLIER_BIN", earlier),
            None => eprintln!(
                "the tests of an upgrade are skipped: this clone's history has no commit {}",
                revision::UPGRADE_FROM
            ),
        }
    }
    process::run(test.args(rest))?;
    if !quick && rest.is_empty() {
        process::run(
            workspace::cargo(&root)
                .args(["test", "--test", "end_to_end", "--"])
                .args(REDIRECT)
                .env("SHUNT_BIN", &agent)
                .env("SHUNT_REDIRECT", "1"),
        )?;
    }
    eprintln!("all tests passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Says where kube-proxy's recorded cases are, for the tests that follow them: where the variable names
/// them, or else in a folder beside this checkout.
fn know_cases(root: &Path, test: &mut Command) {
    const VARIABLE: &str = "SHUNT_CASES";
    if env::var_os(VARIABLE).is_some() {
        return;
    }
    let beside = root.join("../shared/cases");
    if beside.join("kube-proxy-flows.json").is_file() {
        test.env(VARIABLE, beside);
    } else {
        eprintln!(
            "kube-proxy's recorded cases are skipped: {VARIABLE} does not name their folder, and \
             there is no {}",
            beside.display()
        );
    }
}

/// A kernel version of two numbers.
fn version(text: &str) -> Result<String> {
    let (major, minor) = text.split_once('.').unwrap_or((text, ""));
    if major.parse::<u32>().is_err() || minor.parse::<u32>().is_err() {
        bail!("not a version such as 6.1");
    }
    Ok(text.to_owned())
}
