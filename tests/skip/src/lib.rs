//! Skips: the one way for a test to pass without a check.

#![forbid(unsafe_code)]

use std::{
    env,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
    thread,
};

/// The variable that names the file of skips. `cargo xtask test` sets it for each process of tests, because
/// libtest does not show the output of a test that passes.
pub const FILE: &str = "SHUNT_SKIPS";

/// A test that did nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// The name of the thread that skipped, which libtest gives to each test; empty for a thread that the test
    /// started.
    pub test: String,
    /// The missing thing.
    pub reason: String,
}

/// Records that the calling test does nothing; the test returns afterwards. The reason must be the same in each
/// run, since `xtask/src/skips.rs` lists the reasons that CI accepts.
///
/// # Panics
///
/// If the record cannot be written: the skip would go unnoticed.
pub fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
    let Some(file) = env::var_os(FILE) else {
        return;
    };
    if let Err(error) = record(Path::new(&file), reason) {
        panic!("cannot write {}: {error}", file.display());
    }
}

fn record(file: &Path, reason: &str) -> io::Result<()> {
    let thread = thread::current();
    let line = format!("{}\t{reason}\n", thread.name().unwrap_or_default());
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    // One call a line: tests of a process run at once.
    file.write_all(line.as_bytes())
}

/// Reads the skips in a file. Without the file, there are none.
///
/// # Errors
///
/// If the file cannot be read, or has a line of another form.
pub fn skips(file: &Path) -> io::Result<Vec<Skip>> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    let skip = |line: &str| {
        let (test, reason) = line.split_once('\t')?;
        Some(Skip {
            test: test.to_owned(),
            reason: reason.to_owned(),
        })
    };
    let skips: Option<_> = text.lines().map(skip).collect();
    skips.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a line without a test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_skip_is_read_with_its_test_and_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("skips");
        assert_eq!(skips(&file).unwrap(), []);
        record(&file, "needs nft").unwrap();
        thread::scope(|scope| {
            scope.spawn(|| record(&file, "needs root").unwrap());
        });
        let found = skips(&file).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|Skip { test, reason }| (&**test, &**reason))
            .collect();
        let own = "tests::each_skip_is_read_with_its_test_and_reason";
        assert_eq!(found, [(own, "needs nft"), ("", "needs root")]);
    }
}
