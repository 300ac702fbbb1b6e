//! Results of the tests in the machine.

use std::fmt;

use anyhow::{Result, bail};

use crate::{skips::is_accepted_on, test_result::count};

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
    /// The version of the kernel, by which its accepted skips are listed.
    version: String,
    /// The test whose output the machine shows.
    shown: String,
    /// Tests that did nothing, for want of something there, with the reasons: they count as passed.
    idle: Vec<(String, String)>,
    /// The names of those that failed.
    failures: Vec<String>,
    /// The exit status of the tests, once they have ended.
    exit: Option<String>,
}

impl Report {
    pub(super) fn new(release: &str, version: &str) -> Self {
        Self {
            release: release.to_owned(),
            version: version.to_owned(),
            ..Self::default()
        }
    }

    /// Reads a line: of the machine's first process, or of a test binary about its tests.
    pub(super) fn read(&mut self, line: &str) {
        if let Some(kernel) = line.strip_prefix("kernel ") {
            self.is_release |= kernel.split(',').next() == Some(&self.release);
        } else if let Some(exit) = line.strip_prefix("job exit ") {
            self.exit = Some(exit.trim().to_owned());
        } else if let Some(test) = shown(line) {
            test.clone_into(&mut self.shown);
        } else if let Some(reason) = line.strip_prefix("skipped: ") {
            self.idle.push((self.shown.clone(), reason.to_owned()));
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

    /// Returns whether it was the right kernel, every test passed, there were any, and each idle one is on the list of
    /// this kernel.
    pub(super) fn verdict(&self) -> Result<()> {
        if !self.is_release {
            bail!("the machine did not say that it runs {}", self.release);
        }
        let mut idle = self.idle.iter();
        if let Some((test, reason)) =
            idle.find(|(test, reason)| !is_accepted_on(&self.version, test, reason))
        {
            bail!(
                "{test} did nothing, which no list accepts on {} (xtask/src/skips.rs): {reason}",
                self.release
            );
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
            version: _,
            is_release: _,
            shown: _,
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
        for (test, reason) in idle {
            write!(f, "\n  {test}: {reason}")?;
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

/// Returns the test whose output follows this line.
fn shown(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Report {
        let mut report = Report::new("6.1.0-56-amd64", "6.1");
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
            "---- one::passes stdout ----",
            "skipped: needs nft",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored",
            "job exit 101",
        ]);
        assert_eq!(
            report.to_string(),
            "6.1.0-56-amd64: 1 tests passed, 1 failed, 0 were ignored, 0 not chosen\n\
             1 of those that passed did nothing:\n  one::passes: needs nft\nfailed: one::fails"
        );
        assert!(report.verdict().is_err());
    }

    #[test]
    fn a_test_that_did_nothing_has_to_be_on_the_list_of_that_kernel() {
        let test = "dsr::driver::without_room_for_an_envelope_a_packet_is_left_to_tc_v4";
        let verdict = |reason: &str| {
            let report = read(&[
                "kernel 6.1.0-56-amd64, up after 9 s",
                &format!("---- {test} stdout ----"),
                &format!("skipped: {reason}"),
                "test result: ok. 3 passed; 0 failed; 0 ignored",
                "job exit 0",
            ]);
            report.verdict().map_err(|error| error.to_string())
        };
        verdict("the kernel runs no XDP programs behind long metadata").unwrap();
        let expected = format!(
            "{test} did nothing, which no list accepts on 6.1.0-56-amd64 (xtask/src/skips.rs): \
             needs ethtool"
        );
        assert_eq!(verdict("needs ethtool"), Err(expected));
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
