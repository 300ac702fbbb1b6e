//! The end of a run: sums, seconds and the slowest cases.

use std::{collections::BTreeMap, fmt, fs, path::PathBuf, time::Duration};

use super::pool::Outcome;
use crate::test_result::count;

/// The number of slowest cases that are shown.
const SLOWEST: usize = 10;

/// The counts of a run so far.
#[derive(Debug, Default)]
pub(super) struct Summary {
    passed: u64,
    failed: u64,
    skipped: u64,
    /// The reasons why tests were skipped, and how many were.
    reasons: BTreeMap<String, u64>,
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
        } = outcome;
        self.times.push((*took, name.clone()));
        let [passed, failed] = ["passed", "failed"].map(|word| results(output, word));
        if failure.is_some() {
            self.failures.push((name.clone(), log.clone()));
            self.failed += failed.max(1);
            self.passed += passed;
            return;
        }
        let reasons: Vec<&str> = output
            .lines()
            .filter(|line| line.starts_with("skipped: "))
            .collect();
        // In a binary with many tests, those lines do not name the number of their tests.
        if passed == 1 && !reasons.is_empty() {
            self.skipped += 1;
        } else {
            self.passed += passed;
        }
        for reason in reasons {
            *self.reasons.entry(reason.to_owned()).or_default() += 1;
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
            skipped,
            reasons,
            failures,
            times,
        } = self;
        let mut times: Vec<_> = times.iter().collect();
        times.sort_by(|a, b| b.cmp(a));
        writeln!(f, "the slowest:")?;
        for (took, name) in times.iter().take(SLOWEST) {
            writeln!(f, "  {:6.1} s  {name}", took.as_secs_f64())?;
        }
        for (reason, count) in reasons {
            writeln!(f, "{count} x {reason}")?;
        }
        for (name, log) in failures {
            writeln!(f, "failed: {name}: {}", log.display())?;
        }
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let build = fs::read_to_string("/proc/sys/kernel/version").unwrap_or_default();
        writeln!(f, "on Linux {} {}", kernel.trim(), build.trim())?;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
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
        }
    }

    #[test]
    fn tests_that_did_nothing_are_skipped_and_not_passed() {
        let one = "test result: ok. 1 passed; 0 failed; 0 ignored\n";
        let mut summary = Summary::default();
        summary.note(&outcome("a", 3, None, one));
        summary.note(&outcome(
            "b",
            1,
            None,
            &format!("skipped: needs nft\n{one}"),
        ));
        summary.note(&outcome(
            "c",
            2,
            None,
            "test result: ok. 40 passed; 0 failed;\n",
        ));
        assert!(summary.is_success());
        let text = summary.to_string();
        assert!(
            text.starts_with("the slowest:\n     3.0 s  a\n     2.0 s  c\n"),
            "{text}"
        );
        assert!(text.contains("1 x skipped: needs nft\n"), "{text}");
        assert!(text.ends_with("\n41 passed, 0 failed, 1 skipped"), "{text}");
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
