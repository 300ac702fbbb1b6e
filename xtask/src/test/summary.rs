//! The end of a run: sums, seconds and the slowest cases.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::PathBuf,
    time::Duration,
};

use shunt_skip::Skip;

use super::{audit::Run, pool::Outcome};
use crate::test_result::count;

/// The number of slowest cases that are shown.
const SLOWEST: usize = 10;

/// The counts of a run so far.
#[derive(Debug, Default)]
pub(super) struct Summary {
    passed: u64,
    failed: u64,
    /// The tests that passed and did not skip: those of cases with one test.
    done: BTreeSet<String>,
    skips: Vec<Skip>,
    failures: Vec<(String, PathBuf)>,
    times: Vec<(Duration, String)>,
}

impl Summary {
    /// Counts a case. A binary that was run as a whole counts with its tests.
    pub(super) fn note(&mut self, outcome: &Outcome) {
        let Outcome {
            name,
            took,
            failure,
            output,
            log,
            skips,
        } = outcome;
        self.times.push((*took, name.clone()));
        let [passed, failed] = ["passed", "failed"].map(|word| results(output, word));
        if failure.is_some() {
            self.failures.push((name.clone(), log.clone()));
            self.failed += failed.max(1);
            self.passed += passed;
            return;
        }
        if skips.is_empty() {
            self.done.insert(name.clone());
        }
        self.passed += passed.saturating_sub(tests(skips));
        self.skips.extend(skips.iter().cloned());
    }

    /// Returns the tests that were done, and those that were skipped.
    pub(super) fn run(&self, is_whole: bool) -> Run<'_> {
        Run {
            done: self.done.iter().map(String::as_str).collect(),
            skips: &self.skips,
            is_whole,
        }
    }

    /// Returns whether tests ran, and none failed.
    pub(super) fn is_success(&self) -> bool {
        self.failures.is_empty() && self.passed > 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            done: _,
            skips,
            failures,
            times,
        } = self;
        let mut times: Vec<_> = times.iter().collect();
        times.sort_by(|a, b| b.cmp(a));
        writeln!(f, "the slowest:")?;
        for (took, name) in times.iter().take(SLOWEST) {
            writeln!(f, "  {:6.1} s  {name}", took.as_secs_f64())?;
        }
        let mut reasons = BTreeMap::<_, u64>::new();
        for skip in skips {
            *reasons.entry(&skip.reason).or_default() += 1;
        }
        for (reason, count) in reasons {
            writeln!(f, "{count} x skipped: {reason}")?;
        }
        for (name, log) in failures {
            writeln!(f, "failed: {name}: {}", log.display())?;
        }
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let build = fs::read_to_string("/proc/sys/kernel/version").unwrap_or_default();
        writeln!(f, "on Linux {} {}", kernel.trim(), build.trim())?;
        let skipped = tests(skips);
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Returns the number of tests that were skipped, each for one reason or several.
fn tests(skips: &[Skip]) -> u64 {
    let tests: BTreeSet<_> = skips.iter().map(|skip| &skip.test).collect();
    tests.len() as u64
}

/// Sums the number before `word` in each `test result: ok. 61 passed; 1 failed; …`.
pub(super) fn results(output: &str, word: &str) -> u64 {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("test result: "))
        .map(|result| count(result, word))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, seconds: u64, failure: Option<&str>, output: &str) -> Outcome {
        Outcome {
            name: name.to_owned(),
            took: Duration::from_secs(seconds),
            failure: failure.map(str::to_owned),
            output: output.to_owned(),
            log: PathBuf::from(format!("/logs/{name}.log")),
            skips: Vec::new(),
        }
    }

    #[test]
    fn tests_that_did_nothing_are_skipped_and_not_passed() {
        let one = "test result: ok. 1 passed; 0 failed; 0 ignored\n";
        let mut summary = Summary::default();
        summary.note(&outcome("a", 3, None, one));
        let skip = |test: &str, reason: &str| Skip {
            test: test.to_owned(),
            reason: reason.to_owned(),
        };
        summary.note(&Outcome {
            skips: vec![skip("b", "needs nft"), skip("b", "needs ip")],
            ..outcome("b", 1, None, one)
        });
        summary.note(&Outcome {
            skips: vec![skip("c one", "needs nft")],
            ..outcome("c", 2, None, "test result: ok. 40 passed; 0 failed;\n")
        });
        assert!(summary.is_success());
        let run = summary.run(true);
        assert_eq!(run.done, BTreeSet::from(["a"]));
        assert_eq!(run.skips.len(), 3);
        let text = summary.to_string();
        assert!(
            text.starts_with("the slowest:\n     3.0 s  a\n     2.0 s  c\n"),
            "{text}"
        );
        assert!(text.contains("2 x skipped: needs nft\n"), "{text}");
        assert!(text.ends_with("\n40 passed, 0 failed, 2 skipped"), "{text}");
    }

    #[test]
    fn a_failure_is_named_with_its_log() {
        let mut summary = Summary::default();
        let failed = "test result: FAILED. 4 passed; 2 failed; 0 ignored";
        summary.note(&outcome("a", 1, Some("exit status: 101"), failed));
        summary.note(&outcome("b", 1, Some("signal: 6"), ""));
        assert!(!summary.is_success());
        let text = summary.to_string();
        assert!(text.contains("failed: a: /logs/a.log\n"), "{text}");
        assert!(text.ends_with("\n4 passed, 3 failed, 0 skipped"), "{text}");
    }

    #[test]
    fn a_run_without_a_test_is_no_success() {
        assert!(!Summary::default().is_success());
    }
}
