//! The process that holds a lock.

use std::{
    fmt,
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
};

use nix::sys::stat::{major, minor};

/// The process that holds a lock, as far as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its id; `None` if it is of another PID namespace, or the file system's device has two numbers, as on btrfs.
    pub pid: Option<u32>,
    /// Its name, from `/proc/PID/comm`.
    name: Option<String>,
}

impl Holder {
    /// Finds the process with an flock on `file` in `/proc/locks` (proc_locks(5)).
    pub fn of(file: &File) -> Self {
        let pid = pid(file);
        let name = pid.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).ok());
        Self {
            pid,
            name: name.map(|name| name.trim_end().escape_debug().to_string()),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { pid: None, name: _ } => write!(f, "another process"),
            Self {
                pid: Some(pid),
                name: None,
            } => write!(f, "process {pid}"),
            Self {
                pid: Some(pid),
                name: Some(name),
            } => write!(f, "process {pid} ({name})"),
        }
    }
}

fn pid(file: &File) -> Option<u32> {
    let there = file.metadata().ok()?;
    let (major, minor) = (major(there.dev()), minor(there.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", there.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = words[..] else {
            return None;
        };
        (file == place).then(|| pid.parse().ok())?
    })
}
