//! Programs that are not Shunt's, which `cargo xtask setup` fetches and unpacks.

use std::{
    env,
    path::{Path, PathBuf},
};

/// Finds a program: by `variable`, or else in the search path, or else where `cargo xtask test` puts it.
/// `None`, with a message, if there is none.
pub(crate) fn fetched_binary(program: &str, variable: &str) -> Option<PathBuf> {
    let given = env::var_os(variable).map(PathBuf::from);
    let folders = env::var_os("PATH").unwrap_or_default();
    let installed = || {
        env::split_paths(&folders)
            .map(|folder| folder.join(program))
            .find(|program| program.is_file())
    };
    // A test runs as target/PROFILE/deps/NAME-HASH.
    let this = env::current_exe().unwrap_or_default();
    let target = this.ancestors().nth(3).unwrap_or(Path::new("target"));
    let unpacked = || target.join(program).join("unpacked/usr/bin").join(program);
    let found = given.or_else(installed).unwrap_or_else(unpacked);
    if found.is_file() {
        return Some(found);
    }
    eprintln!(
        "skipped: no {program} at {}: `cargo xtask test` fetches it",
        found.display()
    );
    None
}

/// Finds Prometheus' own tool, as [`fetched_binary`].
pub fn promtool_binary() -> Option<PathBuf> {
    fetched_binary("promtool", "SHUNT_PROMTOOL")
}
