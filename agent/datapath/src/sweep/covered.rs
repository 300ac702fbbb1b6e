//! The sockets at which the programs run: those of the cgroup that they are attached to.

use std::{collections::HashSet, fs, os::unix::fs::MetadataExt as _, path::PathBuf};

/// The cgroup that has the programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// The root: every process.
    All,
    /// The cgroup with this directory, and those below it.
    Below(PathBuf),
}

/// The cgroups that have the programs, by number, as they are at one moment.
#[derive(Debug)]
pub(crate) enum Covered {
    /// Every one.
    All,
    /// These.
    Some(HashSet<u64>),
}

impl Coverage {
    /// Returns the cgroups as they are now. One that cannot be read is none.
    pub(crate) fn now(&self) -> Covered {
        let Self::Below(top) = self else {
            return Covered::All;
        };
        let (mut numbers, mut unread) = (HashSet::new(), vec![top.clone()]);
        while let Some(directory) = unread.pop() {
            // The number of a cgroup is its directory's inode (`cgroup_id` of `include/linux/cgroup.h`).
            if let Ok(about) = fs::metadata(&directory) {
                numbers.insert(about.ino());
            }
            let entries = fs::read_dir(&directory).into_iter().flatten();
            let below = entries
                .map_while(Result::ok)
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            unread.extend(below.map(|entry| entry.path()));
        }
        Covered::Some(numbers)
    }
}

impl Covered {
    /// Returns true if the programs run for sockets of this cgroup. `None` is a kernel that does not return it.
    pub(crate) fn has(&self, cgroup: Option<u64>) -> bool {
        match self {
            Self::All => true,
            Self::Some(numbers) => cgroup.is_some_and(|number| numbers.contains(&number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_below_are_covered_and_no_others() {
        let folder = std::env::temp_dir().join(format!("shunt-covered-{}", std::process::id()));
        let (inner, outer) = (folder.join("top/inner"), folder.join("outer"));
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir_all(&outer).unwrap();
        let number = |path: &PathBuf| Some(fs::metadata(path).unwrap().ino());
        let (inner, outer) = (number(&inner), number(&outer));
        let covered = Coverage::Below(folder.join("top")).now();
        fs::remove_dir_all(&folder).unwrap();
        assert!(covered.has(inner) && !covered.has(outer) && !covered.has(None));
        assert!(Coverage::All.now().has(None));
    }
}
