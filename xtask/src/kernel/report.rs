//! Results of the tests in the machine.

use std::fmt;

use anyhow::{Result, bail};

use crate::test_result::count;

/// Contents of the machine's output so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Expected output of `uname -r`.
    release: String,
    /// True if that was its output.
    is_release: bool,
    passed: u64,
    failed: u64,
    ignored: u64,
    left_out: u64,
    /// Messages of tests that did nothing, for want of something there: they count as passed.
    idle: Vec<String>,
    /// The names of those that failed.
    failures: Vec<String>,
    /// The exit status of the tests, once they have ended.
    exit: Option<String>,
}

impl Report {
    pub(super) fn new(release: &str) -> Self {
        Self {
            release: release.to_owned(),
            ..Self::default()
        }
    }

    /// Reads a line: of the machine's first process, or of a test binary about its tests.
    pub(super) fn read(&mut self, line: &str) {
        if let Some(kernel) = line.strip_prefix("kernel ") {
            self.is_release |= kernel.split(',').next() == Some(&self.release);
        } else if let Some(exit) = line.strip_prefix("job exit ") {
            self.exit = Some(exit.trim().to_owned());
        } else if line.starts_with("skipped: ") {
            self.idle.push(line.to_owned());
        } else if let Some(name) = failure(line) {
            self.failures.push(name.to_owned());
        } else if let Some(result) = line.strip_prefix("test result: ") {
            for (words, sum) in [
                ("passed", &mut self.passed),
                ("failed", &mut self.failed),
                ("ignored", &mut self.ignored),
                ("filtered out", &mut self.left_out),
            ] {
                *sum += count(result, words);
            }
        }
    }

    /// Returns whether it was the right kernel, every test passed, and there were any.
    pub(super) fn verdict(&self) -> Result<()> {
        if !self.is_release {
            bail!("the machine did not say that it runs {}", self.release);
        }
        match self.exit.as_deref() {
            Some("0") if self.failed == 0 && self.passed > 0 => Ok(()),
            Some("0") => bail!("no test ran on {}", self.release),
            Some(_) => bail!("tests failed on {}", self.release),
            None => bail!("the tests on {} did not come to their end", self.release),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            release,
            is_release: _,
            passed,
            failed,
            ignored,
            left_out,
            idle,
            failures,
            exit: _,
        } = self;
        write!(
            f,
            "{release}: {passed} tests passed, {failed} failed, {ignored} were ignored, {left_out} \
             not chosen"
        )?;
        if !idle.is_empty() {
            write!(f, "\n{} of those that passed did nothing:", idle.len())?;
        }
        for line in idle {
            write!(f, "\n  {line}")?;
        }
        for name in failures {
            write!(f, "\nfailed: {name}")?;
        }
        Ok(())
    }
}

/// Returns the test that has failed by this line.
fn failure(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Report {
        let mut report = Report::new("6.1.0-56-amd64");
        lines.iter().for_each(|line| report.read(line));
        report
    }

    #[test]
    fn the_results_of_all_binaries_are_summed_up() {
        let report = read(&[
            "kernel 6.1.0-56-amd64, up after 9 s",
            "test result: ok. 61 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.5s",
            "test result: ok. 20 passed; 0 failed; 0 ignored; 0 measured; 30 filtered out; finished in 9s",
            "job exit 0",
        ]);
        assert_eq!(
            report.to_string(),
            "6.1.0-56-amd64: 81 tests passed, 0 failed, 2 were ignored, 30 not chosen"
        );
        report.verdict().unwrap();
    }

    #[test]
    fn what_failed_and_what_did_nothing_is_named() {
        let report = read(&[
            "kernel 6.1.0-56-amd64, up after 9 s",
            "test one::fails ... FAILED",
            "test one::passes ... ok",
            "skipped: needs nft",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored",
            "job exit 101",
        ]);
        assert_eq!(
            report.to_string(),
            "6.1.0-56-amd64: 1 tests passed, 1 failed, 0 were ignored, 0 not chosen\n\
             1 of those that passed did nothing:\n  skipped: needs nft\nfailed: one::fails"
        );
        assert!(report.verdict().is_err());
    }

    #[test]
    fn only_tests_that_ran_to_their_end_on_that_kernel_count() {
        let right = "kernel 6.1.0-56-amd64, up after 9 s";
        let passed = "test result: ok. 3 passed; 0 failed; 0 ignored";
        let failed = "test result: FAILED. 3 passed; 1 failed; 0 ignored";
        for lines in [
            ["kernel 6.18.0, up after 9 s", passed, "job exit 0"],
            [right, failed, "job exit 1"],
            [right, failed, "job exit 0"],
            [right, passed, "job exit 101"],
            [right, "test result: ok. 0 passed", "job exit 0"],
            [right, passed, ""],
        ] {
            assert!(read(&lines).verdict().is_err(), "{lines:?}");
        }
    }
}
