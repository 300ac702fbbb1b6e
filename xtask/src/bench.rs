//! `cargo xtask bench`: what packets, connections and changes cost, beside what else they could.

mod known;
mod verdict;

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use clap::ValueEnum as _;
use shunt_machine::Purpose;
use shunt_toolchain::Toolchain;

use self::known::{BOUNDS, MISSES};
use crate::{build, machine, privilege, process, revision, setup, workspace};

/// Subject of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Suite {
    /// A packet through each program
    Packets,
    /// Requests and connections in network namespaces
    Traffic,
    /// Packets in transit where the driver has them
    Xdp,
    /// Exchanges and system calls of processes whose sockets are translated
    Sockets,
    /// Events, from their arrival to the kernel's tables
    Control,
    /// A cluster's objects, from the API server to the kernel's tables
    Cluster,
    /// Workloads outside a cluster, from the API server to its EndpointSlices
    Controllers,
    /// A Consul catalog, from the real server to the kernel's tables
    Consul,
}

impl Suite {
    /// Returns the first word of its studies' names.
    const fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Traffic => "traffic",
            Self::Xdp => "xdp",
            Self::Sockets => "sockets",
            Self::Control => "control",
            Self::Cluster => "cluster",
            Self::Controllers => "controllers",
            Self::Consul => "consul",
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Fewer rounds, and nothing that takes minutes
    #[arg(long)]
    quick: bool,
    /// Only this; may be given more than once
    #[arg(long, value_enum)]
    suite: Vec<Suite>,
    /// Refused: the results are not put into the documentation any more
    #[arg(long, hide = true)]
    update_docs: bool,
    /// An earlier revision, whose programs take turns with these on the same packets
    #[arg(long, value_name = "REV")]
    against: Option<String>,
    /// Further arguments for the bench; `-- --help` lists them
    #[arg(last = true)]
    rest: Vec<String>,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let Args {
        quick,
        suite,
        update_docs,
        against,
        rest,
    } = args;
    ensure!(
        !update_docs,
        "--update-docs is gone: results are in target/bench/results.md; put the figures that matter into \
         docs/bench.md"
    );
    privilege::require("cargo xtask bench")?;
    machine::require(Purpose::Tests)?;
    setup::ensure(setup::Needs::Bench)?;
    let root = workspace::root()?;
    let earlier = match against {
        Some(name) => {
            let revision = revision::resolve(&root, name)?;
            let agent = revision::agent(&root, &revision)?;
            Some((
                name,
                agent.context("git does not have the revision's files")?,
            ))
        }
        None => None,
    };
    let agent = build::released_agent(&root)?;
    let messages = process::output(
        workspace::cargo(&root)
            .args(["bench", "--no-run", "--package", "shunt-tests"])
            .args(["--bench", "bench"])
            .args(["--message-format", "json-render-diagnostics"])
            .stderr(Stdio::inherit()),
    )?;
    let bench = workspace::executable(&messages, "bench").context("cargo built no bench")?;
    let output = workspace::output("bench")?;
    let feeder = Toolchain::load(&root)
        .map_err(|error| anyhow!("{error}"))?
        .build_object(&root, &workspace::output("bpf")?, "shunt-feeder", &[])
        .map_err(|error| anyhow!("{error}"))?;

    let mut command = Command::new(bench);
    command
        .arg("--agent")
        .arg(agent)
        .arg("--feeder")
        .arg(feeder)
        .arg("--output")
        .arg(&output)
        .args(quick.then_some("--quick"));
    if let Some((name, agent)) = earlier {
        command
            .arg("--against")
            .arg(name)
            .arg("--earlier")
            .arg(agent);
        // What else is measured has no part of the other revision.
        if suite.is_empty() && rest.is_empty() {
            command.args(["--suite", "packets", "--only", "packets/against"]);
        }
    }
    for suite in suite {
        command.args(["--suite", suite.name()]);
    }
    command.args(rest);
    let report = output.join("results.json");
    if report.exists() {
        // One of an earlier run would be judged if this one ends without a report.
        fs::remove_file(&report).with_context(|| format!("cannot remove {}", report.display()))?;
    }
    let ran = process::run(&mut privilege::as_root(command));
    privilege::hand_back(&root)?;
    ran?;
    let is_whole = !quick && against.is_none() && rest.is_empty();
    let suites = if is_whole { suites(suite) } else { Vec::new() };
    judge(&report, &suites)
}

/// Returns the suites that run if these are given.
fn suites(given: &[Suite]) -> Vec<Suite> {
    if given.is_empty() {
        Suite::value_variants().to_vec()
    } else {
        given.to_vec()
    }
}

/// Fails by the bounds in a report. All of those of the suites have to be in it.
fn judge(report: &Path, suites: &[Suite]) -> Result<()> {
    let text =
        fs::read_to_string(report).with_context(|| format!("cannot read {}", report.display()))?;
    let is_of = |study: &str| {
        let of = study.split('/').next();
        suites.iter().any(|suite| Some(suite.name()) == of)
    };
    let expected = BOUNDS.into_iter().filter(|(study, _)| is_of(study));
    let faults = verdict::faults(&text, &MISSES, expected)?;
    if !faults.is_empty() {
        bail!("bounds:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_without_a_row_of_a_chosen_suite_fails() {
        let report = std::env::temp_dir().join(format!("shunt-bench-{}", std::process::id()));
        let judged = |text: &str, suites: &[Suite]| {
            fs::write(&report, text).unwrap();
            judge(&report, suites)
        };
        let empty = r#"{"studies": []}"#;
        judged(empty, &[]).unwrap();
        let error = judged(empty, &[Suite::Cluster]).unwrap_err().to_string();
        assert!(error.contains("cluster/change: 0 of its bounds"), "{error}");
        assert!(!error.contains("packets/"), "{error}");
        let missed = r#"{"studies": [{"study": "packets/splits", "bounds": [{"label": "a",
            "limit": {"at_most": 0}, "value": {"lower": 1, "median": 1, "upper": 1}}]}]}"#;
        assert!(judged(missed, &[]).is_err());
        fs::remove_file(&report).unwrap();
        assert!(judge(&report, &[]).is_err(), "there is no report");
    }

    #[test]
    fn each_suite_has_bounds() {
        for suite in suites(&[]) {
            let begins = format!("{}/", suite.name());
            let has = BOUNDS.iter().any(|(study, _)| study.starts_with(&begins));
            assert!(has, "{suite:?}");
        }
    }
}
