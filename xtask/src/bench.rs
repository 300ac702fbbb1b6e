//! `cargo xtask bench`: what packets, connections and changes cost, beside what else they could.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, anyhow, ensure};

use shunt_machine::Purpose;
use shunt_toolchain::Toolchain;

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
        .arg(output)
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
        let name = match suite {
            Suite::Packets => "packets",
            Suite::Traffic => "traffic",
            Suite::Xdp => "xdp",
            Suite::Sockets => "sockets",
            Suite::Control => "control",
            Suite::Cluster => "cluster",
            Suite::Controllers => "controllers",
            Suite::Consul => "consul",
        };
        command.args(["--suite", name]);
    }
    command.args(rest);
    privilege::exec(command)
}
