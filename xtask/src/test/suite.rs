//! All tests of the chosen packages, by our own runner.

use std::{
    env, fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::{
    audit::{Abilities, Run},
    binaries::{self, Binary},
    changed::Reach,
    pool::{Case, Outcome, Pool},
    speed,
    summary::Summary,
    times::Times,
};
use crate::{process, skips, workspace};

/// The package whose tests are run one by one: they need root, and wait more than they work.
const ONE_BY_ONE: &str = "shunt-tests/";

/// The test binary beside which no other test runs: it floods the machine.
const ALONE: &str = "siege";

/// The end-to-end tests that are run once more with the agent's `--redirect`.
const REDIRECT: [&str; 4] = ["changes::", "dual_stack::", "path_mtu::", "translation::"];

/// The variable from which the tests read how many times slower than usual this machine is.
const PATIENCE: &str = "SHUNT_PATIENCE";

/// The largest number of tests that run at once for each processor: most of them wait most of their time.
const JOBS_A_PROCESSOR: usize = 4;

/// The time limits of a case, and of one in its full form.
const LIMIT: Duration = Duration::from_mins(20);
const LONG_LIMIT: Duration = Duration::from_hours(3);

/// A run of the tests.
pub(super) struct Suite<'a> {
    pub(super) root: &'a Path,
    pub(super) variables: Vec<(&'static str, PathBuf)>,
    /// The number of tests that run at once, if it was given.
    pub(super) jobs: Option<NonZeroUsize>,
    /// True if tests run in their full forms.
    pub(super) long: bool,
    /// True if the tests run as root.
    pub(super) as_root: bool,
    /// True if the run has to account for each skip.
    pub(super) is_audited: bool,
    /// The tests that a change reaches; all of them if there is none.
    pub(super) reach: Option<Reach>,
}

impl Suite<'_> {
    /// Builds the tests that `selection`, arguments for `cargo test`, chooses, and runs them.
    ///
    /// # Errors
    ///
    /// Fails if a test does.
    pub(super) fn run(&self, selection: &[&str]) -> Result<()> {
        let Self {
            root,
            variables,
            jobs,
            long,
            as_root,
            is_audited,
            reach,
        } = self;
        let start = Instant::now();
        let mut variables = variables.clone();
        let binaries = binaries::build(root, selection)?;
        eprintln!("tests built in {:.0} s", start.elapsed().as_secs_f64());
        let mut times = Times::open(&workspace::output("test-times")?);
        let mut cases = cases(&binaries)?;
        if let Some(reach) = reach {
            cases.retain(|case| match &case.test {
                Some(_) => reach.has_root_test(&case.name),
                None => reach.has_package(&case.name),
            });
            eprintln!(
                "the change reaches {} of the tests and test binaries",
                cases.len()
            );
        }
        cases.sort_by_cached_key(|case| times.rank(&case.name));
        // The tests wait longer on a machine that is slow, or busy with others.
        let patience = (patience() * speed::slowness()).min(1000);
        let logs = workspace::output("test-logs")?;
        fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
        variables.push((PATIENCE, patience.to_string().into()));
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let pool = Pool {
            jobs: jobs.map_or(JOBS_A_PROCESSOR * processors, NonZeroUsize::get),
            processors: jobs.map_or(processors, NonZeroUsize::get),
            limit: if *long { LONG_LIMIT } else { LIMIT } * patience,
            as_root: *as_root,
            variables: &variables,
            logs: &logs,
        };
        let (mut summary, mut done) = (Summary::default(), 0);
        pool.run(&cases, |outcome| {
            done += 1;
            show(&outcome, done, cases.len());
            times.note(&outcome.name, outcome.took, outcome.failure.is_some());
            summary.note(&outcome);
        });
        times.save()?;
        let documentation = match reach {
            Some(_) => Ok(()),
            None => documentation(root, selection),
        };
        eprintln!("{summary}");
        documentation?;
        if !summary.is_success() {
            bail!("tests failed");
        }
        if *is_audited {
            audit(&summary.run(reach.is_none()))?;
        }
        Ok(())
    }
}

/// Fails if a test was skipped that had to run, or the other way round.
fn audit(run: &Run<'_>) -> Result<()> {
    let faults = Abilities::probe()?.faults(run, skips::accepted());
    if !faults.is_empty() {
        bail!("skips (xtask/src/skips.rs):\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// Returns the cases: each test of [`ONE_BY_ONE`], and each other binary as a whole.
fn cases(binaries: &[Binary]) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for binary in binaries {
        let is_one_by_one = binary.name.starts_with(ONE_BY_ONE) && binary.target.is_some();
        if !is_one_by_one {
            cases.push(Case {
                name: binary.name.clone(),
                binary: binary.clone(),
                test: None,
                variables: Vec::new(),
                alone: false,
            });
            continue;
        }
        let target = binary.target.as_deref().unwrap_or_default();
        for test in binary.tests()? {
            let case = |name, variables| Case {
                name,
                binary: binary.clone(),
                test: Some(test.clone()),
                variables,
                alone: target == ALONE,
            };
            if target == "end_to_end" && REDIRECT.iter().any(|name| test.starts_with(name)) {
                let name = format!("{target} {test}, with --redirect");
                cases.push(case(name, vec![("SHUNT_REDIRECT", "1")]));
            }
            cases.push(case(format!("{target} {test}"), Vec::new()));
        }
    }
    Ok(cases)
}

/// Prints the outcome of a case: a line, and its output if it failed.
fn show(outcome: &Outcome, done: usize, all: usize) {
    let Outcome {
        name,
        took,
        failure,
        output,
        log: _,
        skips: _,
    } = outcome;
    let seconds = took.as_secs_f64();
    match failure {
        None => eprintln!("[{done}/{all}] ok {seconds:6.1} s  {name}"),
        Some(failure) => {
            eprintln!("[{done}/{all}] FAILED {seconds:.1} s  {name}: {failure}\n{output}");
        }
    }
}

/// Runs the examples in the documentation of the same packages.
fn documentation(root: &Path, selection: &[&str]) -> Result<()> {
    process::quiet_step(
        "test the examples in the documentation",
        workspace::cargo(root)
            .args(["test", "--doc", "--locked"])
            .args(selection),
    )
}

/// Returns the factor for limits on waiting that the user set.
fn patience() -> u32 {
    let variable = env::var(PATIENCE).ok();
    let factor = variable.and_then(|text| text.parse().ok());
    factor.unwrap_or(1).clamp(1, 1000)
}
