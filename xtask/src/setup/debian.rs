//! Debian's own compiler: a stable rustc that comes with `core` for BPF, and the LLVM it was built
//! with.

use std::{fs, path::Path, process::Command};

use anyhow::{Result, bail};

use super::{llvm::Llvm, version};
use shunt_toolchain::Toolchain;

use crate::{cache::Shelf, privilege, process};

/// The compiler, cargo, and `core` for BPF. The package with the compiler's LLVM, which the linker is built
/// against, follows from the compiler: [`Llvm::package`].
const PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "libstd-rust-web-dev-bpf"];

/// The path of the compiler in [`PACKAGES`].
const RUSTC: &str = "/usr/bin/rustc";

/// Returns whether packages can be installed here at all.
pub(super) fn has_apt() -> bool {
    process::output(Command::new("apt-get").arg("--version")).is_ok()
}

/// Returns whether all packages of this way are installed.
pub(super) fn is_installed() -> bool {
    missing(&PACKAGES).is_empty()
        && Llvm::of(Path::new(RUSTC)).is_ok_and(|llvm| missing(&[&llvm.package()]).is_empty())
}

/// Returns the command that installs them by hand. It names the LLVM once the compiler is there.
pub(super) fn command() -> String {
    let llvm = match missing(&PACKAGES)[..] {
        [] => Llvm::of(Path::new(RUSTC)).ok(),
        _ => None,
    };
    let packages = PACKAGES.map(str::to_owned).into_iter();
    let packages: Vec<_> = packages.chain(llvm.map(|llvm| llvm.package())).collect();
    format!(
        "apt-get update && apt-get install --no-install-recommends {}",
        packages.join(" ")
    )
}

/// The compiler of the installed packages.
pub(super) fn find() -> Result<Toolchain> {
    let rustc = Path::new(RUSTC);
    Ok(Toolchain {
        way: "debian".to_owned(),
        cargo: "/usr/bin/cargo".into(),
        rustc: rustc.to_owned(),
        version: version(rustc)?,
        args: Vec::new(),
    })
}

/// Installs the packages, if this Debian has them: the compiler, and then the LLVM that it has.
pub(super) fn install() -> Result<Toolchain> {
    let unknown = install_packages(&PACKAGES)?;
    if !unknown.is_empty() {
        bail!("apt does not know {}", unknown.join(", "));
    }
    let llvm = Llvm::of(Path::new(RUSTC))?;
    if !install_packages(&[&llvm.package()])?.is_empty() {
        bail!("apt does not know {}", llvm.package());
    }
    find()
}

/// Installs those of `packages` that are missing and that apt knows; returns the others. Removes nothing,
/// without prompts.
pub(super) fn install_packages<'a>(packages: &[&'a str]) -> Result<Vec<&'a str>> {
    let missing = missing(packages);
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    update();
    let (known, unknown): (Vec<_>, Vec<_>) = missing
        .iter()
        .copied()
        .partition(|package| has_candidate(package));
    if !known.is_empty() {
        let mut apt = apt();
        let shelf = Shelf::packages().filter(|shelf| keeps_packages(&mut apt, shelf));
        process::quiet_step(
            "setup: install packages",
            apt.args(["install", "--yes", "--no-install-recommends", "--no-remove"])
                .args(known),
        )?;
        if let Some(Err(error)) = shelf.map(|shelf| shelf.trim()) {
            eprintln!("setup: cannot tidy up the cache of packages: {error}");
        }
    }
    Ok(unknown)
}

/// Makes `apt-get` fetch packages into the cache, unless the cache cannot be written.
fn keeps_packages(apt: &mut Command, shelf: &Shelf) -> bool {
    let folder = shelf.folder();
    if let Err(error) = fs::create_dir_all(folder.join("partial")) {
        eprintln!(
            "setup: no packages are kept in {}: {error}",
            folder.display()
        );
        return false;
    }
    apt.arg(format!("-oDir::Cache::archives={}", folder.display()))
        .arg("-oAPT::Keep-Downloaded-Packages=true")
        // The user of apt's downloads cannot write to a folder of root's.
        .arg("-oAPT::Sandbox::User=root");
    true
}

/// Fetches the lists of packages. A source that does not answer is no reason to stop: the lists
/// may still name what is wanted.
pub(crate) fn update() {
    if let Err(error) =
        process::quiet_step("setup: fetch the lists of packages", apt().arg("update"))
    {
        eprintln!("setup: {error:#}");
    }
}

/// `apt-get` that never asks, waits for another one, and gives up soon on a dead network.
pub(crate) fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").args([
        "-qq",
        "-oDPkg::Lock::Timeout=300",
        "-oAcquire::Retries=1",
        "-oAcquire::http::Timeout=20",
        "-oAcquire::https::Timeout=20",
    ]);
    privilege::as_root(command)
}

/// Returns the `packages` that are not installed.
fn missing<'a>(packages: &[&'a str]) -> Vec<&'a str> {
    let installed = |package: &&str| {
        let query = ["--show", "--showformat=${db:Status-Status}", package];
        process::output(Command::new("dpkg-query").args(query))
            .is_ok_and(|status| status == "installed")
    };
    packages
        .iter()
        .copied()
        .filter(|package| !installed(package))
        .collect()
}

/// Returns whether apt could install a package.
fn has_candidate(package: &str) -> bool {
    let policy = Command::new("apt-cache")
        .env("LC_ALL", "C")
        .args(["policy", package])
        .output();
    policy.is_ok_and(|policy| names_candidate(&String::from_utf8_lossy(&policy.stdout)))
}

/// Reads the answer of `apt-cache policy`: empty for an unknown package, `(none)` for one that only
/// others name.
fn names_candidate(policy: &str) -> bool {
    policy
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Candidate:"))
        .any(|candidate| candidate.trim() != "(none)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_package_with_a_version_is_a_candidate() {
        let cases = [
            ("", false),
            (
                "rustc-web:\n  Installed: (none)\n  Candidate: (none)\n",
                false,
            ),
            (
                "rustc-web:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1\n",
                true,
            ),
        ];
        for (policy, expected) in cases {
            assert_eq!(names_candidate(policy), expected, "{policy:?}");
        }
    }
}
