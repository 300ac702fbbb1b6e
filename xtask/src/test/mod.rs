//! `cargo xtask test`: all tests, or those that need no root.

mod audit;
mod binaries;
mod changed;
mod load;
mod pool;
mod speed;
mod suite;
mod summary;
mod times;

use std::{
    env,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, Result, bail};
use shunt_machine::Purpose;

use self::changed::Reach;
use crate::{build, image, kernel, machine, privilege, process, revision, setup, workspace};

/// The packages whose tests need neither root nor a kernel.
const QUICK: [&str; 18] = [
    "shunt",
    "shunt-api",
    "shunt-catalog",
    "shunt-common",
    "shunt-datapath",
    "shunt-files",
    "shunt-http",
    "shunt-image",
    "shunt-kubernetes",
    "shunt-machine",
    "shunt-model",
    "shunt-runtime",
    "shunt-serve",
    "shunt-skip",
    "shunt-source",
    "shunt-toolchain",
    "shunt-trace",
    "xtask",
];

/// The limit of the image of the tests' agent, which is not optimised.
const TEST_IMAGE_BYTES: usize = 100_000_000;

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
    /// Only the tests that the changes since this revision can reach
    #[arg(
        long,
        value_name = "REV",
        num_args = 0..=1,
        default_missing_value = "HEAD",
        conflicts_with_all = ["kernel", "rest"]
    )]
    changed: Option<String>,
    /// Number of tests that run at once [default: three for each processor]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Arguments for `cargo test`, such as a filter, which runs the tests in place of our own runner
    #[arg(last = true)]
    rest: Vec<String>,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let Args {
        quick,
        long,
        kernel,
        changed,
        jobs,
        rest,
    } = args;
    if !kernel.is_empty() {
        return kernel::main(kernel, rest);
    }
    if !quick {
        privilege::require("cargo xtask test")
            .context("`cargo xtask test --quick` runs the tests that do without")?;
        machine::require(Purpose::Tests)?;
    }
    let start = Instant::now();
    let root = workspace::root()?;
    let reach = match changed {
        Some(revision) => Some(Reach::since(&root, revision)?),
        None => None,
    };
    // Without root, most tests are left out in any case.
    let is_audited = !quick && audit::is_due();
    let mut variables = Vec::new();
    variables.extend(cases(&root, is_audited)?);
    if *long {
        variables.push(("SHUNT_LONG", "1".into()));
    }
    let mut selection: Vec<&str> = Vec::new();
    if *quick {
        setup::ensure(setup::Needs::Build)?;
        selection.extend(QUICK.iter().flat_map(|package| ["--package", package]));
    } else {
        setup::ensure(setup::Needs::Test)?;
        variables.extend(prepare(&root, is_audited)?);
    }
    let result = if rest.is_empty() {
        let suite = suite::Suite {
            root: &root,
            variables,
            jobs: *jobs,
            long: *long,
            as_root: !quick,
            is_audited,
            reach,
        };
        suite.run(&selection)
    } else {
        let mut test = workspace::cargo(&root);
        test.arg("test").args(selection).args(rest);
        if !quick && let Some(runner) = privilege::cargos_runner() {
            test.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner);
        }
        process::run(test.envs(variables))
    };
    if !quick {
        privilege::hand_back(&root)?;
    }
    result?;
    eprintln!("all tests passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Builds for the tests the agent, its image, and the agent of an earlier revision. Returns the variables
/// that name them.
fn prepare(root: &Path, is_audited: bool) -> Result<Vec<(&'static str, PathBuf)>> {
    let built = build::quick(root)?;
    let (agent, plugin) = (built.join("shunt"), built.join("kubectl-shunt"));
    let layout = workspace::output("image")?.join("test");
    image::make(root, &agent, "shunt:test", &layout, TEST_IMAGE_BYTES)?;
    let mut variables = vec![
        ("SHUNT_BIN", agent),
        ("SHUNT_KUBECTL_BIN", plugin),
        ("SHUNT_IMAGE", layout),
    ];
    match revision::agent(root, revision::UPGRADE_FROM)? {
        Some(earlier) => variables.push(("SHUNT_EARLIER_BIN", earlier)),
        None => {
            let from = revision::UPGRADE_FROM;
            let reason = format!("an upgrade: this clone's history has no commit {from}");
            audit::leave_out(&reason, is_audited)?;
        }
    }
    Ok(variables)
}

/// Returns the variable that names the folder of kube-proxy's recorded cases, if it is not set and the
/// folder is beside this checkout.
fn cases(root: &Path, is_audited: bool) -> Result<Option<(&'static str, PathBuf)>> {
    const VARIABLE: &str = "SHUNT_CASES";
    if env::var_os(VARIABLE).is_some() {
        return Ok(None);
    }
    let beside = root.join("../shared/cases");
    if beside.join("kube-proxy-flows.json").is_file() {
        return Ok(Some((VARIABLE, beside)));
    }
    let reason = format!(
        "kube-proxy's recorded cases: {VARIABLE} does not name their folder, and there is no {}",
        beside.display()
    );
    audit::leave_out(&reason, is_audited)?;
    Ok(None)
}

/// Parses a kernel version of two numbers.
fn version(text: &str) -> Result<String> {
    let (major, minor) = text.split_once('.').unwrap_or((text, ""));
    if major.parse::<u32>().is_err() || minor.parse::<u32>().is_err() {
        bail!("not a version such as 6.1");
    }
    Ok(text.to_owned())
}
