//! Files from the network, by their checksum: from the cache, or from the first place that has the right
//! one.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context as _, Result, bail};

use crate::{cache::Shelf, process};

/// A checksum in hexadecimal.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sum {
    Sha256(&'static str),
    Sha512(&'static str),
}

/// A file, and where it may come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Download<'a> {
    /// The name for people.
    pub(super) name: &'a str,
    pub(super) sum: Sum,
    pub(super) urls: &'a [&'a str],
}

/// Puts the file at `to`, whole or not at all.
///
/// # Errors
///
/// If no place has the right file, or there is no program that fetches it.
pub(super) fn fetch(download: Download<'_>, to: &Path) -> Result<()> {
    fetch_through(Shelf::downloads(), download, to)
}

fn fetch_through(shelf: Option<Shelf>, download: Download<'_>, to: &Path) -> Result<()> {
    let Download { name, sum, urls } = download;
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let (Sum::Sha256(key) | Sum::Sha512(key)) = sum;
    if let Some(shelf) = &shelf
        && shelf.take(key, to)?
    {
        if sum.holds(to)? {
            return Ok(());
        }
        shelf.discard(key);
    }
    let part = to.with_added_extension("part");
    let mut reasons = Vec::new();
    for url in urls {
        match fetch_from(url, sum, &part) {
            Ok(()) => {
                fs::rename(&part, to).with_context(|| format!("cannot make {}", to.display()))?;
                if let Some(shelf) = shelf {
                    shelf.keep(key, to);
                }
                return Ok(());
            }
            Err(error) => reasons.push(format!("{error:#}")),
        }
    }
    bail!("{name} cannot be fetched: {}", reasons.join("; "))
}

/// Fetches one address into a file of this checksum.
fn fetch_from(url: &str, sum: Sum, part: &Path) -> Result<()> {
    match fs::remove_file(part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", part.display()));
        }
        _ => {}
    }
    let Some(mut command) = fetcher(url, part) else {
        bail!("there is neither curl nor wget nor apt: install curl");
    };
    let start = Instant::now();
    process::output(&mut command)?;
    if !sum.holds(part)? {
        bail!("{url} is not the file that was tried: its checksum is another one");
    }
    eprintln!(
        "setup: fetched {url} in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Returns the command of the first program here that fetches files.
fn fetcher(url: &str, to: &Path) -> Option<Command> {
    let is_there = |program: &str| process::output(Command::new(program).arg("--version")).is_ok();
    // A Debian has it without further packages.
    let helper = PathBuf::from("/usr/lib/apt/apt-helper");
    let mut command;
    if is_there("curl") {
        command = Command::new("curl");
        command
            .args(["--fail", "--silent", "--show-error", "--location"])
            .args([
                "--connect-timeout",
                "20",
                "--speed-time",
                "30",
                "--speed-limit",
                "1000",
            ])
            .arg("--output")
            .arg(to)
            .arg(url);
    } else if is_there("wget") {
        command = Command::new("wget");
        command
            .args(["--quiet", "--timeout=20", "--tries=2", "--output-document"])
            .arg(to)
            .arg(url);
    } else if helper.exists() {
        command = Command::new(helper);
        command
            .args(["-oAcquire::Retries=1", "-oAcquire::http::Timeout=20"])
            .args(["-oAcquire::https::Timeout=20", "-oAPT::Sandbox::User=root"])
            .args(["download-file", url])
            .arg(to);
    } else {
        return None;
    }
    Some(command)
}

impl Sum {
    /// Returns whether a file has this checksum.
    fn holds(self, path: &Path) -> Result<bool> {
        let (program, sum) = match self {
            Self::Sha256(sum) => ("sha256sum", sum),
            Self::Sha512(sum) => ("sha512sum", sum),
        };
        let found = process::output(Command::new(program).arg("--").arg(path))?;
        Ok(found.split_whitespace().next() == Some(sum))
    }
}

#[cfg(test)]
mod tests {
    use std::env;

    use shunt_skip::skip;

    use super::*;

    /// `printf hello | sha256sum`
    const HELLO: Sum =
        Sum::Sha256("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");

    fn folder(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("shunt-fetch-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn the_next_place_is_tried_until_one_has_the_right_file() {
        if process::output(Command::new("curl").arg("--version")).is_err() {
            skip("needs curl, which fetches from files");
            return;
        }
        let folder = folder("places");
        for (name, text) in [("right", "hello"), ("wrong", "hallo")] {
            fs::write(folder.join(name), text).unwrap();
        }
        let place = |name: &str| format!("file://{}/{name}", folder.display());
        let [absent, wrong, right] = ["absent", "wrong", "right"].map(place);
        let to = folder.join("inner/fetched");
        let fetch = |urls: &[&str]| {
            let download = Download {
                name: "a word",
                sum: HELLO,
                urls,
            };
            fetch_through(None, download, &to)
        };
        fetch(&[&absent, &wrong, &right]).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "hello");
        fs::remove_file(&to).unwrap();

        let error = fetch(&[&absent, &wrong]).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("a word cannot be fetched: "), "{error}");
        assert!(error.contains("its checksum is another one"), "{error}");
        assert!(!to.exists(), "a wrong file must not get the name");
        fs::remove_dir_all(&folder).unwrap();
    }
}
