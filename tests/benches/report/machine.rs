//! On what the results came to be.

use std::fs;

use serde::Serialize;
use shunt_tests::run;

/// On what, when and of what the results came to be.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    /// The kernel's version.
    pub kernel: String,
    /// The processor's model.
    pub processor: String,
    /// Number of processors.
    pub processors: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// Day and time, UTC.
    pub date: String,
    /// The commit, with `-dirty` if something was changed since.
    pub commit: String,
}

impl Machine {
    /// Looks at this machine; what cannot be read is `unknown`.
    pub(super) fn look() -> Self {
        let unknown = || "unknown".to_owned();
        let first_line = |path, key: &str| {
            let text = fs::read_to_string(path).ok()?;
            let value = text.lines().find_map(|line| line.strip_prefix(key))?;
            Some(value.trim_start_matches([' ', '\t', ':']).trim().to_owned())
        };
        let said = |program, arguments: &[&str]| {
            run(program, arguments).map_or_else(|_| unknown(), |text| text.trim().to_owned())
        };
        let memory = first_line("/proc/meminfo", "MemTotal:");
        let kilobytes = memory.and_then(|text| text.trim_end_matches(" kB").parse().ok());
        Self {
            kernel: first_line("/proc/sys/kernel/osrelease", "").unwrap_or_else(unknown),
            processor: first_line("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory: kilobytes.map_or(0, |kilobytes: u64| kilobytes * 1024),
            date: said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
            commit: said(
                "git",
                &[
                    "-C",
                    env!("CARGO_MANIFEST_DIR"),
                    "describe",
                    "--always",
                    "--dirty",
                ],
            ),
        }
    }
}
