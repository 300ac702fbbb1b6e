//! Runs cases, several at once.
//!
//! A test end to end waits most of its time, so more of them run at once than there are processors, as long as
//! these have time for more. Each test of the package `shunt-tests` is a process of its own: its time is known,
//! and a crash or a test that hangs costs no other test its result.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use shunt_skip::Skip;

use super::{binaries::Binary, load};
use crate::privilege;

/// The status of `timeout` if the time is over.
const TIMED_OUT: i32 = 124;

/// A case: tests that run as one process.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) binary: Binary,
    /// The one test; all that the binary has if there is none.
    pub(super) test: Option<String>,
    /// Variables for this case alone.
    pub(super) variables: Vec<(&'static str, &'static str)>,
    /// True if no other case runs beside it.
    pub(super) alone: bool,
}

impl Case {
    /// Reads the skips of its tests from a file.
    fn skips(&self, file: &Path) -> Result<Vec<Skip>> {
        let skips =
            shunt_skip::skips(file).with_context(|| format!("cannot read {}", file.display()))?;
        let named = |Skip { test, reason }| {
            let test = match (&self.test, &self.binary.target) {
                (Some(test), Some(target)) => format!("{target} {test}"),
                _ => format!("{} {test}", self.binary.name),
            };
            Skip { test, reason }
        };
        Ok(skips.into_iter().map(named).collect())
    }
}

/// The outcome of a case.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) took: Duration,
    /// The reason why it failed, if it did.
    pub(super) failure: Option<String>,
    pub(super) output: String,
    pub(super) log: PathBuf,
    /// The tests that did nothing, as `binary module::test`.
    pub(super) skips: Vec<Skip>,
}

/// A pool of processes that run cases.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    /// The number of cases that run at once, if the processors have time.
    pub(super) jobs: usize,
    /// The number of cases that run at once in any case.
    pub(super) processors: usize,
    /// The time after which a case is ended.
    pub(super) limit: Duration,
    /// True if the cases run as root.
    pub(super) as_root: bool,
    /// Variables for all cases.
    pub(super) variables: &'a [(&'static str, PathBuf)],
    /// The folder for the output of cases.
    pub(super) logs: &'a Path,
}

impl Pool<'_> {
    /// Runs the cases in their order, and hands each outcome to `done` as it comes; those that run alone
    /// come last.
    pub(super) fn run(&self, cases: &[Case], mut done: impl FnMut(Outcome)) {
        let (alone, beside): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.alone);
        self.run_at_once(&beside, self.jobs, &mut done);
        self.run_at_once(&alone, 1, &mut done);
    }

    fn run_at_once(&self, cases: &[&Case], jobs: usize, done: &mut impl FnMut(Outcome)) {
        let running = AtomicUsize::new(0);
        // One case begins at a time: the load is looked at again before the next.
        let next = Mutex::new(0);
        let (sender, outcomes) = mpsc::channel();
        let sender = Mutex::new(sender);
        thread::scope(|scope| {
            for _ in 0..jobs.min(cases.len()) {
                let sender = sender
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone();
                let (next, running) = (&next, &running);
                scope.spawn(move || {
                    while let Some(case) = self.begin(cases, next, running) {
                        let outcome = self.outcome(case);
                        running.fetch_sub(1, Ordering::Relaxed);
                        // The receiver lives until all workers have ended.
                        _ = sender.send(outcome);
                    }
                });
            }
            drop(sender);
            outcomes.iter().for_each(&mut *done);
        });
    }

    /// Returns the next case, as soon as the processors have time for it.
    fn begin<'c>(
        &self,
        cases: &[&'c Case],
        next: &Mutex<usize>,
        running: &AtomicUsize,
    ) -> Option<&'c Case> {
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        let case = cases.get(*next)?;
        load::wait(self.processors, || {
            running.load(Ordering::Relaxed) < self.processors
        });
        *next += 1;
        running.fetch_add(1, Ordering::Relaxed);
        Some(case)
    }

    fn outcome(&self, case: &Case) -> Outcome {
        let log = self.logs.join(file_name(&case.name));
        let skipped = log.with_extension("skips");
        let start = Instant::now();
        let ran = self.execute(case, &log, &skipped);
        let ran = ran.and_then(|failure| Ok((failure, case.skips(&skipped)?)));
        let (failure, skips) = ran.unwrap_or_else(|error| (Some(format!("{error:#}")), Vec::new()));
        let output = fs::read(&log).unwrap_or_default();
        Outcome {
            name: case.name.clone(),
            took: start.elapsed(),
            failure,
            output: String::from_utf8_lossy(&output).into_owned(),
            log,
            skips,
        }
    }

    /// Runs a case to its end, with its output in `log` and the skips of its tests in `skipped`. Returns the reason why it failed.
    fn execute(&self, case: &Case, log: &Path, skipped: &Path) -> Result<Option<String>> {
        let Case {
            name: _,
            binary,
            test,
            variables,
            alone: _,
        } = case;
        let output =
            File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        if skipped.exists() {
            fs::remove_file(skipped)
                .with_context(|| format!("cannot remove {}", skipped.display()))?;
        }
        let run = binary.command();
        // `timeout` ends a test that hangs; in the foreground, so that Ctrl-C reaches the test as well.
        let mut command = Command::new("timeout");
        command
            .args(["--foreground", "--signal=ABRT", "--kill-after=10"])
            .arg(self.limit.as_secs().to_string())
            .arg(run.get_program());
        if let Some(folder) = run.get_current_dir() {
            command.current_dir(folder);
        }
        for (name, value) in run.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        match test {
            // With one thread, the line of the result would begin before what the test prints.
            Some(test) => command.args(["--exact", test, "--nocapture", "--test-threads=2"]),
            // With one thread, libtest names none after its test.
            None => command
                .arg("--color=never")
                .arg(format!("--test-threads={}", threads())),
        };
        command
            .env(shunt_skip::FILE, skipped)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .envs(variables.iter().copied());
        if self.as_root {
            command = privilege::as_root(command);
        }
        let status = command
            .stdin(std::process::Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .status()
            .context("cannot run `timeout`, which the package coreutils has")?;
        Ok(match status.code() {
            Some(0) => None,
            Some(TIMED_OUT) => Some(format!("did not end within {} s", self.limit.as_secs())),
            _ => Some(status.to_string()),
        })
    }
}

/// Returns the number of threads of a binary that is run as a whole.
fn threads() -> usize {
    thread::available_parallelism().map_or(2, |processors| processors.get().max(2))
}

/// Returns the file for the output of a case.
fn file_name(case: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    case.chars().map(plain).collect::<String>() + ".log"
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    fn case(name: &str, script: &str, alone: bool) -> Case {
        // A shell in place of a test binary: it takes the test's name and prints it.
        let path = env::temp_dir().join(format!("shunt-pool-{}-{name}", std::process::id()));
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).unwrap();
        Case {
            name: name.to_owned(),
            binary: Binary {
                name: "package".to_owned(),
                path,
                folder: env::temp_dir(),
                target: Some("binary".to_owned()),
            },
            test: Some("a::test".to_owned()),
            variables: vec![("OWN", "1")],
            alone,
        }
    }

    #[test]
    fn each_outcome_has_what_was_printed_and_why_it_failed() {
        let logs = env::temp_dir().join(format!("shunt-pool-{}", std::process::id()));
        fs::create_dir_all(&logs).unwrap();
        let cases = [
            case("alone", "echo last", true),
            case(
                "passes",
                "echo $2 $OWN $COMMON; printf '\\tneeds nft\\n' >> $SHUNT_SKIPS",
                false,
            ),
            case("fails", "echo why >&2; exit 101", false),
        ];
        let pool = Pool {
            jobs: 2,
            processors: 1,
            limit: Duration::from_mins(1),
            as_root: false,
            variables: &[("COMMON", PathBuf::from("2"))],
            logs: &logs,
        };
        let mut outcomes = Vec::new();
        pool.run(&cases, |outcome| outcomes.push(outcome));
        let last = outcomes.pop().unwrap();
        assert_eq!((&*last.name, &*last.output), ("alone", "last\n"));
        outcomes.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(last.skips, []);
        let skip = Skip {
            test: "binary a::test".to_owned(),
            reason: "needs nft".to_owned(),
        };
        assert_eq!(outcomes[1].skips, [skip]);
        let found: Vec<_> = outcomes
            .iter()
            .map(|outcome| (&*outcome.name, &*outcome.output, outcome.failure.is_some()))
            .collect();
        assert_eq!(
            found,
            [("fails", "why\n", true), ("passes", "a::test 1 2\n", false)]
        );
        fs::remove_dir_all(&logs).unwrap();
        for case in cases {
            fs::remove_file(case.binary.path).unwrap();
        }
    }
}
