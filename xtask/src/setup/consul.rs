//! The real Consul, for the tests of the source that follows it: Debian 11's package, fetched and
//! unpacked in cargo's folder. Nothing is installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::debian;
use crate::{process, workspace};

/// What was tried with. A later release of Debian has no Consul.
const PACKAGE: &str = "consul=1.8.7+dfsg1-2+b3";

/// The checksum of its archive.
const SHA256: &str = "e4e888bba104daba1d9161f49bfc52649a7e4efd45b1a7ead5bc54f2cb9c89d9";

/// Where it comes from.
const SOURCE: &str = "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
                      http://deb.debian.org/debian bullseye main\n";

/// Makes sure that Consul is in cargo's folder. Gives its binary.
///
/// # Errors
///
/// It cannot be fetched, or is not what was tried with.
pub(crate) fn ensure() -> Result<PathBuf> {
    let folder = workspace::output("consul")?;
    let unpacked = folder.join("unpacked");
    let binary = unpacked.join("usr/bin/consul");
    if binary.exists() {
        return Ok(binary);
    }
    if !debian::has_apt() {
        bail!("Consul is fetched by apt-get, which is not here");
    }
    let fetched = folder.join("fetched");
    for new in [
        &fetched,
        &folder.join("lists/partial"),
        &folder.join("cache"),
    ] {
        fs::create_dir_all(new).with_context(|| format!("cannot make {}", new.display()))?;
    }
    fs::write(folder.join("sources.list"), SOURCE)?;
    process::quiet_step(
        "setup: fetch Debian 11's list of packages",
        apt(&folder).arg("update"),
    )?;
    process::quiet_step(
        "setup: fetch Consul",
        apt(&folder)
            .current_dir(&fetched)
            .args(["download", PACKAGE]),
    )?;
    unpack(&fetched, &folder.join("unpacked.new"))?;
    fs::rename(folder.join("unpacked.new"), &unpacked)?;
    fs::remove_dir_all(&fetched)?;
    Ok(binary)
}

/// `apt-get` with sources and lists of its own: the host's stay as they are.
fn apt(folder: &Path) -> Command {
    let mut command = debian::apt();
    for (name, place) in [
        ("Dir::Etc::sourcelist", "sources.list"),
        ("Dir::State::lists", "lists"),
        ("Dir::Cache", "cache"),
    ] {
        command.arg(format!("-o{name}={}", folder.join(place).display()));
    }
    command.args([
        "-oDir::Etc::sourceparts=/dev/null",
        "-oAPT::Sandbox::User=root",
    ]);
    command
}

/// Unpacks the one package that is there, if it is the right one.
fn unpack(fetched: &Path, to: &Path) -> Result<()> {
    let entries = fs::read_dir(fetched)?.collect::<Result<Vec<_>, _>>()?;
    let [package] = &entries[..] else {
        bail!("there are {} files in place of one", entries.len());
    };
    let sum = process::output(Command::new("sha256sum").arg(package.path()))?;
    if !sum.starts_with(SHA256) {
        bail!(
            "{} is not what was tried with: {sum}",
            package.path().display()
        );
    }
    process::run(Command::new("dpkg").arg("-x").arg(package.path()).arg(to))
}
