//! The times of the last run, by which the next one is put in order.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};

/// The seconds of each case of the last run, and whether it failed.
#[derive(Debug, Default)]
pub(super) struct Times {
    file: PathBuf,
    cases: BTreeMap<String, (f64, bool)>,
}

impl Times {
    /// Reads the file, if it is there: a line a case, `seconds failed name`. It skips malformed lines, since
    /// only the order follows from the file.
    pub(super) fn open(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_default();
        Self {
            file: file.to_owned(),
            cases: text.lines().filter_map(parse).collect(),
        }
    }

    /// Returns the key by which cases are sorted: those that failed come first, then those without a
    /// time, then the longest.
    pub(super) fn rank(&self, name: &str) -> (u8, Duration) {
        match self.cases.get(name) {
            Some((_, true)) => (0, Duration::ZERO),
            None => (1, Duration::ZERO),
            Some((seconds, false)) => {
                let longest = Duration::from_hours(1);
                let seconds = Duration::try_from_secs_f64(*seconds).unwrap_or_default();
                (2, longest.saturating_sub(seconds))
            }
        }
    }

    /// Stores the outcome of a case.
    pub(super) fn note(&mut self, name: &str, took: Duration, failed: bool) {
        self.cases
            .insert(name.to_owned(), (took.as_secs_f64(), failed));
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub(super) fn save(&self) -> Result<()> {
        let mut lines = String::new();
        for (name, (seconds, failed)) in &self.cases {
            lines.push_str(&format!("{seconds:.3} {failed} {name}\n"));
        }
        fs::write(&self.file, lines)
            .with_context(|| format!("cannot write {}", self.file.display()))
    }
}

fn parse(line: &str) -> Option<(String, (f64, bool))> {
    let mut words = line.splitn(3, ' ');
    let seconds = words.next()?.parse().ok()?;
    let failed = words.next()?.parse().ok()?;
    Some((words.next()?.to_owned(), (seconds, failed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_cases_come_first_then_new_ones_then_the_longest() {
        let mut times = Times::default();
        times.note("short", Duration::from_secs(1), false);
        times.note("long", Duration::from_secs(90), false);
        times.note("failed", Duration::from_secs(2), true);
        let mut names = ["short", "new", "failed", "long"];
        names.sort_by_key(|name| times.rank(name));
        assert_eq!(names, ["failed", "new", "long", "short"]);
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let read = parse("1.500 true shunt-tests/packets a::b c");
        assert_eq!(
            read,
            Some(("shunt-tests/packets a::b c".to_owned(), (1.5, true)))
        );
        assert_eq!(parse("x true name"), None);
    }
}
