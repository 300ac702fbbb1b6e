//! Debian's own compiler: a stable rustc that comes with `core` for BPF, and the LLVM it was built
//! with.

use std::{path::Path, process::Command};

use anyhow::{Result, bail};

use super::version;
use shunt_toolchain::Toolchain;

use crate::process;

/// The compiler, cargo, `core` for BPF, and the LLVM that the linker is built against.
const PACKAGES: [&str; 4] = [
    "rustc-web",
    "cargo-web",
    "libstd-rust-web-dev-bpf",
    "llvm-22-dev",
];

/// Where [`PACKAGES`] put LLVM.
pub(super) const LLVM_PREFIX: &str = "/usr/lib/llvm-22";

/// The feature of bpf-linker for that LLVM.
pub(super) const LLVM_FEATURE: &str = "llvm-22";

/// Whether packages can be installed here at all.
pub(super) fn has_apt() -> bool {
    process::output(Command::new("apt-get").arg("--version")).is_ok()
}

/// Whether all packages of this way are installed.
pub(super) fn is_installed() -> bool {
    missing(&PACKAGES).is_empty()
}

/// What to type to install them by hand.
pub(super) fn command() -> String {
    format!(
        "apt-get update && apt-get install --no-install-recommends {}",
        PACKAGES.join(" ")
    )
}

/// The compiler of the installed packages.
pub(super) fn find() -> Result<Toolchain> {
    let rustc = Path::new("/usr/bin/rustc");
    Ok(Toolchain {
        way: "debian".to_owned(),
        cargo: "/usr/bin/cargo".into(),
        rustc: rustc.to_owned(),
        version: version(rustc)?,
        args: Vec::new(),
    })
}

/// Installs the packages, if this Debian has them.
pub(super) fn install() -> Result<Toolchain> {
    install_packages(&PACKAGES)?;
    find()
}

/// Installs those of `packages` that are missing. Removes nothing, asks nothing.
pub(super) fn install_packages(packages: &[&str]) -> Result<()> {
    let missing = missing(packages);
    if missing.is_empty() {
        return Ok(());
    }
    update();
    let unknown: Vec<_> = missing
        .iter()
        .copied()
        .filter(|package| !has_candidate(package))
        .collect();
    if !unknown.is_empty() {
        bail!("apt does not know {}", unknown.join(", "));
    }
    process::quiet_step(
        "setup: install packages",
        apt()
            .args(["install", "--yes", "--no-install-recommends", "--no-remove"])
            .args(missing),
    )
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
    command
}

/// Those of `packages` that are not installed.
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

/// Whether apt could install a package.
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
