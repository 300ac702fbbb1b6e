//! `cargo xtask fuzz`: the fuzz tests for as long as one likes.
//!
//! They are ordinary tests, which `cargo xtask test` runs for a moment each. Here they get more
//! time: new inputs are drawn until it is over. An input that fails is shrunk and shown, with the
//! seed that leads to it again.

use anyhow::{Context as _, Result};

use crate::{process, setup, workspace};

/// Tests that take input from an unknown source.
struct Target {
    name: &'static str,
    /// Place where cargo finds the tests.
    place: &'static [&'static str],
    /// First part of their names.
    filter: &'static str,
}

const TARGETS: [Target; 4] = [
    Target {
        name: "lines",
        place: &["--package", "shunt-api", "--test", "fuzz"],
        filter: "lines::",
    },
    Target {
        name: "messages",
        place: &["--package", "shunt-api", "--test", "fuzz"],
        filter: "messages::",
    },
    Target {
        name: "tables",
        place: &["--package", "shunt-datapath", "--lib"],
        filter: "publish::publisher::tests::resync::fuzz::",
    },
    Target {
        name: "frames",
        place: &["--package", "shunt-tests", "--test", "model"],
        filter: "frames",
    },
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds that each test runs
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The seed of an input that failed, to have it again
    #[arg(long)]
    seed: Option<String>,
    /// Targets to fuzz: lines, messages, tables, frames (needs root); all of them if none is named
    #[arg(value_name = "TARGET", value_parser = TARGETS.map(|target| target.name))]
    targets: Vec<String>,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let Args {
        seconds,
        seed,
        targets,
    } = args;
    setup::ensure(setup::Needs::Build)?;
    let root = workspace::root()?;
    let milliseconds = seconds
        .checked_mul(1000)
        .context("that is too long a time")?
        .to_string();
    let named = |target: &&Target| targets.is_empty() || targets.iter().any(|t| t == target.name);
    for target in TARGETS.iter().filter(named) {
        let Target {
            name,
            place,
            filter,
        } = target;
        let mut test = workspace::cargo(&root);
        test.env("BOLERO_RANDOM_TEST_TIME_MS", &milliseconds)
            .env("SHUNT_FUZZ_SECONDS", seconds.to_string())
            .arg("test")
            .args(*place)
            .args(["--", "--nocapture", filter]);
        if let Some(seed) = seed {
            test.env("BOLERO_RANDOM_SEED", seed)
                .env("SHUNT_MODEL_SEED", seed);
        }
        process::step(&format!("fuzz {name}"), &mut test)?;
    }
    Ok(())
}
