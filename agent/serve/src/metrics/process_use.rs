//! Resources that this process has taken of the machine.

use std::{fs, io, time::Duration};

use nix::sys::{
    resource::{Resource, UsageWho, getrlimit, getrusage},
    time::TimeValLike as _,
};

/// Resources that this process has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessUse {
    /// Time on a processor, in the kernel too.
    pub(crate) cpu: Duration,
    /// Memory in bytes that is in RAM.
    pub(crate) resident: u64,
    /// Memory in bytes, wherever it is.
    pub(crate) virtual_memory: u64,
    /// Threads.
    pub(crate) threads: u64,
    /// Open files.
    pub(crate) open_files: u64,
    /// Maximum number of open files.
    pub(crate) max_files: u64,
}

impl ProcessUse {
    /// As it is now.
    ///
    /// # Errors
    ///
    /// If the kernel does not report it.
    pub(crate) fn read() -> io::Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let cpu = usage.user_time() + usage.system_time();
        let (max_files, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
        // The listing is a file, too.
        let open_files = fs::read_dir("/proc/self/fd")?.count().saturating_sub(1);
        Ok(Self {
            cpu: Duration::from_micros(cpu.num_microseconds().unsigned_abs()),
            resident: field(&status, "VmRSS") * 1024,
            virtual_memory: field(&status, "VmSize") * 1024,
            threads: field(&status, "Threads"),
            open_files: open_files as u64,
            max_files,
        })
    }
}

/// A number of proc_pid_status(5); 0 if it is not there.
fn field(status: &str, name: &str) -> u64 {
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = value.and_then(|value| value.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_takes_something() {
        let ProcessUse {
            cpu: _,
            resident,
            virtual_memory,
            threads,
            open_files,
            max_files,
        } = ProcessUse::read().unwrap();
        assert!(
            resident > 0 && virtual_memory >= resident,
            "{resident} {virtual_memory}"
        );
        assert!(threads > 0 && open_files > 0 && max_files >= open_files);
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let status = "VmPeak:\t 9 kB\nVmRSS:\t    1234 kB\nThreads:\t7\n";
        for (name, value) in [("VmRSS", 1234), ("Threads", 7), ("Vm", 0), ("VmSwap", 0)] {
            assert_eq!(field(status, name), value, "{name}");
        }
    }
}
