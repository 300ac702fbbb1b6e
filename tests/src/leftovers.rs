//! Leftovers of killed processes, which differ from what is in use by the process id in their names.

use std::{fs, path::Path, process};

/// Begin of the names.
const PREFIX: &str = "shunt-test-";

/// The name of this process' thing with this number: `shunt-test-<pid>-<number>`.
pub(crate) fn name(number: u32) -> String {
    format!("{PREFIX}{}-{number}", process::id())
}

/// The process that made the thing with this [`name`], if it is one of ours.
pub(crate) fn owner(name: &str) -> Option<u32> {
    let (owner, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let _number: u32 = number.parse().ok()?;
    owner.parse().ok()
}

/// Removes what is in `folder` of processes that are no longer there; `owner` returns by its name whose it
/// is. A failure means nothing: another process may be reaping too.
pub(crate) fn reap(folder: &str, owner: fn(&str) -> Option<u32>, remove: impl Fn(&Path)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(owner) = name.to_str().and_then(owner) else {
            continue;
        };
        if !Path::new("/proc").join(owner.to_string()).exists() {
            remove(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_have_an_owner() {
        let cases = [
            ("shunt-test-4711-0", Some(4711)),
            ("shunt-test-4711", None),
            ("shunt", None),
            ("shunt-test--1-0", None),
            ("system.slice", None),
        ];
        for (name, expected) in cases {
            assert_eq!(owner(name), expected, "{name}");
        }
        assert_eq!(owner(&name(7)), Some(process::id()));
    }
}
