//! The agent of an earlier revision, built from the repository's own history.
//!
//! ```text
//! target/revisions/ID/source    the revision's files
//! target/revisions/ID/shunt     its agent
//! target/revisions/build        cargo's folder for all of them
//! ```
//!
//! A copy of the agent is kept for the next clone: [`Shelf::agents`].

use std::{
    env,
    fs::{self, File},
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, anyhow, bail};
use shunt_toolchain::{FOLDER, Toolchain};

use crate::{cache::Shelf, process, seed, workspace};

/// The revision whose agent and this one take over from each other in the upgrade tests: the last one
/// that took over from version 3 of the layouts too.
pub(crate) const UPGRADE_FROM: &str = "da98eb8fcf75c3e7062f1e7d4c712ef1a2c1f3b2";

/// The optimisation of packages in agents of earlier revisions.
const OPT_LEVEL: &str = "0";

/// Builds the agent of `revision`, a commit's full id, as the tests build this one, unless that was
/// done before; returns where it is. `None`: the history does not reach back so far.
pub(crate) fn agent(root: &Path, revision: &str) -> Result<Option<PathBuf>> {
    let revisions = workspace::output("revisions")?;
    let folder = revisions.join(revision);
    let agent = folder.join("shunt");
    if agent.exists() {
        return Ok(Some(agent));
    }
    if !is_known(root, revision) {
        return Ok(None);
    }
    let key = key(root, revision)?;
    let shelf = Shelf::agents();
    if let Some(shelf) = &shelf
        && shelf.take(&key, &agent)?
    {
        if process::output(Command::new(&agent).arg("--version")).is_ok() {
            return Ok(Some(agent));
        }
        // It was built on a machine with other libraries.
        shelf.discard(&key);
        fs::remove_file(&agent).with_context(|| format!("cannot remove {}", agent.display()))?;
    }
    let source = folder.join("source");
    unpack(root, revision, &source)?;
    let toolchain = source.join(FOLDER);
    if !toolchain.is_symlink() {
        symlink(root.join(FOLDER), &toolchain)
            .with_context(|| format!("cannot make {}", toolchain.display()))?;
    }
    let build = revisions.join("build");
    seed::seed(&workspace::output("debug")?, &build.join("debug"))?;
    process::step(
        &format!("build the agent of revision {}", &revision[..8]),
        // Without `--package`, as the tests build this one: with the same features of dependencies.
        workspace::cargo(&source)
            .args(["build", "--bin", "shunt", "--locked"])
            // As packages of registries are compiled here, and not by the revision's profile.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", OPT_LEVEL)
            .arg("--target-dir")
            .arg(&build),
    )?;
    // Copied under another name first, so that what has the name is whole.
    let copy = folder.join("shunt-new");
    let built = build.join("debug/shunt");
    fs::copy(&built, &copy)
        .and_then(|_| fs::rename(&copy, &agent))
        .with_context(|| format!("cannot copy {}", built.display()))?;
    if let Some(shelf) = &shelf {
        shelf.keep(&key, &agent);
    }
    Ok(Some(agent))
}

/// Returns the key of an agent of that revision: besides its sources it depends on both compilers and on the
/// user's flags for all builds.
fn key(root: &Path, revision: &str) -> Result<String> {
    let toolchain = Toolchain::load(root).map_err(|error| anyhow!("{error}"))?;
    let rustc = env::var_os("RUSTC").map_or_else(rustc_beside_cargo, PathBuf::from);
    let rustc = process::output(Command::new(rustc).current_dir(root).arg("--version"))?;
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    Ok(key_of(revision, &rustc, &toolchain.version, &flags))
}

/// Returns the compiler of the cargo that runs us.
fn rustc_beside_cargo() -> PathBuf {
    env::var_os("CARGO")
        .map(|cargo| PathBuf::from(cargo).with_file_name("rustc"))
        .filter(|rustc| rustc.exists())
        .unwrap_or_else(|| "rustc".into())
}

fn key_of(revision: &str, rustc: &str, bpf: &str, flags: &str) -> String {
    let profile = format!("debug{OPT_LEVEL}");
    [revision, &profile, rustc, bpf, flags]
        .map(str::trim)
        .join("-")
        .trim_end_matches('-')
        .to_owned()
}

/// The full id of the commit that a name, a tag or an abbreviation stands for.
pub(crate) fn resolve(root: &Path, name: &str) -> Result<String> {
    let commit = format!("{name}^{{commit}}");
    process::output(git(root).args([
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        &commit,
    ]))
    .with_context(|| format!("there is no revision {name}"))
}

/// Returns whether the repository has the commit: a shallow clone may not.
fn is_known(root: &Path, revision: &str) -> bool {
    process::output(git(root).args(["cat-file", "-t", revision])).is_ok_and(|kind| kind == "commit")
}

/// Puts the files of the revision into a folder of their own, which is no working tree of git's.
fn unpack(root: &Path, revision: &str, source: &Path) -> Result<()> {
    let made = |path: &Path| format!("cannot make {}", path.display());
    match fs::remove_dir_all(source) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", source.display()));
        }
        _ => fs::create_dir_all(source).with_context(|| made(source))?,
    }
    let archive = source.with_extension("tar");
    let file = File::create(&archive).with_context(|| made(&archive))?;
    process::run(
        git(root)
            .args(["archive", "--format=tar", revision])
            .stdout(file),
    )?;
    process::run(
        // As new as they are here: the build that was before may be of a later revision, and
        // cargo goes by the time.
        Command::new("tar")
            .args(["--touch", "-xf"])
            .arg(&archive)
            .arg("-C")
            .arg(source),
    )?;
    if !source.join("Cargo.toml").exists() {
        bail!("revision {revision} is no workspace");
    }
    fs::remove_file(&archive).with_context(|| format!("cannot remove {}", archive.display()))
}

fn git(root: &Path) -> Command {
    let mut command = Command::new("git");
    // The folder may be another user's, as in a container that builds as root.
    command.arg("-C").arg(root).args(["-c", "safe.directory=*"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_compiler_or_flag_makes_another_agent() {
        let key = key_of("abc", "rustc 1.95.0", "rustc 1.96.0", "");
        assert_eq!(key, "abc-debug0-rustc 1.95.0-rustc 1.96.0");
        for other in [
            key_of("abd", "rustc 1.95.0", "rustc 1.96.0", ""),
            key_of("abc", "rustc 1.95.1", "rustc 1.96.0", ""),
            key_of("abc", "rustc 1.95.0", "rustc 1.96.1", ""),
            key_of("abc", "rustc 1.95.0", "rustc 1.96.0", "-Copt-level=1"),
        ] {
            assert_ne!(other, key);
        }
    }
}
