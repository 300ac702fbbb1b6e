//! A run: which suites, with what, and where the results go.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, ValueEnum};
use shunt_tests::{interrupt, is_root};

use crate::{
    cluster, consul, control, controllers,
    measure::Study,
    packets,
    report::{Facts, Report},
    sockets, traffic, xdp,
};

/// Measures Shunt. `cargo xtask bench` builds what it needs and runs it.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
pub(crate) struct Options {
    /// Fewer rounds, and nothing that takes minutes
    #[arg(long)]
    pub quick: bool,
    /// Only these suites
    #[arg(long, value_enum)]
    suite: Vec<Suite>,
    /// Only studies with this in their names, such as `packets/established`; may be given more
    /// than once
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Rounds of each study, instead of what the study says
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// The agent's binary
    #[arg(long, value_name = "PATH")]
    pub agent: PathBuf,
    /// The object with the programs that feed others
    #[arg(long, value_name = "PATH")]
    pub feeder: PathBuf,
    /// The agent of an earlier revision, to take turns with
    #[arg(long, value_name = "PATH", requires = "against")]
    pub earlier: Option<PathBuf>,
    /// Name of that revision
    #[arg(long, value_name = "REV", requires = "earlier")]
    pub against: Option<String>,
    /// Folder for results.json and results.md
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    output: PathBuf,
    /// The flag that cargo passes to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

/// A group of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
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
    fn run(self, bench: &mut Bench) -> Result<()> {
        match self {
            Self::Packets => packets::run(bench),
            Self::Traffic => traffic::run(bench),
            Self::Xdp => xdp::run(bench),
            Self::Sockets => sockets::run(bench),
            Self::Control => control::run(bench),
            Self::Cluster => cluster::run(bench),
            Self::Controllers => controllers::run(bench),
            Self::Consul => consul::run(bench),
        }
    }
}

/// A run of suites.
pub(crate) struct Bench {
    options: Options,
    report: Report,
}

impl Bench {
    /// A run with these options, once it is sure that it can be done.
    ///
    /// # Errors
    ///
    /// Without root, or without the binaries.
    pub(crate) fn new(options: Options) -> Result<Self> {
        if !is_root() {
            bail!("BPF programs and network namespaces need root: run it as root");
        }
        for path in [&options.agent, &options.feeder] {
            path.metadata()
                .with_context(|| format!("no {}: run `cargo xtask bench`", path.display()))?;
        }
        interrupt::listen()?;
        let report = Report::new(&options.output, options.quick)?;
        Ok(Self { options, report })
    }

    /// Runs the suites, and writes what they gave, also if one fails.
    ///
    /// # Errors
    ///
    /// When a suite fails, or the user stops it.
    pub(crate) fn run(mut self) -> Result<()> {
        let suites = if self.options.suite.is_empty() {
            Suite::value_variants().to_vec()
        } else {
            self.options.suite.clone()
        };
        let ran = suites
            .into_iter()
            .try_for_each(|suite| suite.run(&mut self));
        self.report.write()?;
        ran
    }

    /// Returns the options of the command line.
    pub(crate) const fn options(&self) -> &Options {
        &self.options
    }

    /// Returns whether a study of this name is wanted, or any whose name begins so.
    pub(crate) fn wants(&self, name: &str) -> bool {
        let only = &self.options.only;
        only.is_empty()
            || only
                .iter()
                .any(|text| name.contains(text.as_str()) || text.starts_with(name))
    }

    /// Returns whether this study is wanted, and no other of its suite.
    pub(crate) fn wants_only(&self, name: &str) -> bool {
        let only = &self.options.only;
        let suite = name.split('/').next().unwrap_or(name);
        let of_suite = only.iter().filter(|text| text.starts_with(suite));
        !only.is_empty() && only.iter().any(|text| name == text) && of_suite.count() == 1
    }

    /// Returns the number of rounds: fewer if the run is to be quick.
    pub(crate) const fn rounds(&self, usually: usize, quick: usize) -> usize {
        if self.options.quick { quick } else { usually }
    }

    /// Runs a study, if it is wanted, and reports it.
    ///
    /// # Errors
    ///
    /// When one of its subjects fails, or the user stops it.
    pub(crate) fn study(&mut self, mut study: Study<'_>) -> Result<()> {
        if !self.wants(study.name()) {
            return Ok(());
        }
        if let Some(rounds) = self.options.rounds {
            study = study.rounds(rounds);
        }
        let results = study.run()?;
        self.report.study(results);
        Ok(())
    }

    /// Reports what is not measured in rounds.
    pub(crate) fn facts(&mut self, facts: Facts) {
        self.report.facts(facts);
    }
}
