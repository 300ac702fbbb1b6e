//! The binaries of the tests.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The agent's binary for a test: `SHUNT_BIN`, or else the newest one that was built in this
/// workspace.
///
/// # Panics
///
/// When there is none.
pub fn agent_binary() -> PathBuf {
    binary("SHUNT_BIN", "shunt")
}

/// The binary of `kubectl shunt`: `SHUNT_KUBECTL_BIN`, or else the newest one that was built in this workspace.
///
/// # Panics
///
/// When there is none.
pub fn kubectl_binary() -> PathBuf {
    binary("SHUNT_KUBECTL_BIN", "kubectl-shunt")
}

fn binary(variable: &str, name: &str) -> PathBuf {
    if let Some(path) = env::var_os(variable) {
        return path.into();
    }
    // A test runs as target/PROFILE/deps/NAME-HASH.
    let this = env::current_exe().unwrap_or_default();
    let target = this.ancestors().nth(3).unwrap_or(Path::new("target"));
    let built = ["release", "debug"].map(|profile| target.join(profile).join(name));
    let newest = built
        .into_iter()
        .filter_map(|path| Some((modified(&path)?, path)))
        .max();
    newest.map_or_else(
        || {
            panic!(
                "no {name} in {}: type `cargo xtask test`, or set {variable}",
                target.display()
            )
        },
        |(_, path)| path,
    )
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}
