//! Needs of a test: rights, programs and abilities of the kernel. Each function returns whether they are there, and
//! skips the test if not.

use std::{
    env,
    path::{Path, PathBuf},
};

use nix::unistd::geteuid;
use shunt_skip::skip;

use crate::ability::Ability;

/// Returns whether this process may make namespaces and load programs.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Returns whether this is root; skips the test if not.
pub fn has_root() -> bool {
    let is_root = is_root();
    if !is_root {
        skip("needs root");
    }
    is_root
}

/// Returns whether the search path has a program; skips the test if not.
pub fn has_program(program: &str) -> bool {
    let is_there = installed(program).is_some();
    if !is_there {
        skip(&format!("needs {program}"));
    }
    is_there
}

/// Finds a program in the search path.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|program| program.is_file())
}

/// Finds a program: by `variable`, or else in the search path, or else where `cargo xtask test` puts it. Skips the
/// test if there is none.
pub(crate) fn fetched(program: &str, variable: &str) -> Option<PathBuf> {
    let given = env::var_os(variable).map(PathBuf::from);
    // A test runs as target/PROFILE/deps/NAME-HASH.
    let this = env::current_exe().unwrap_or_default();
    let target = this.ancestors().nth(3).unwrap_or(Path::new("target"));
    let unpacked = || target.join(program).join("unpacked/usr/bin").join(program);
    let found = given
        .or_else(|| installed(program))
        .unwrap_or_else(unpacked);
    if found.is_file() {
        return Some(found);
    }
    eprintln!("no {program} at {}", found.display());
    skip(&format!(
        "needs {program}, which `cargo xtask test` fetches"
    ));
    None
}

/// Finds Prometheus' own tool; skips the test if there is none.
pub fn promtool_binary() -> Option<PathBuf> {
    fetched("promtool", "SHUNT_PROMTOOL")
}

/// Returns whether the kernel has all of this; skips the test at the first thing that it lacks.
///
/// # Panics
///
/// If a probe fails.
#[expect(
    clippy::unwrap_used,
    reason = "it is not known whether the test has to run"
)]
pub fn kernel_has(abilities: &[Ability]) -> bool {
    let lacking = abilities
        .iter()
        .find(|ability| !ability.is_there().unwrap());
    if let Some(ability) = lacking {
        skip(&ability.lack());
    }
    lacking.is_none()
}
