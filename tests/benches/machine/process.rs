//! A process' use of the machine.

use std::{
    collections::HashSet,
    fs, thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

/// Time for which an amount of memory has to stay the same to count as settled.
const SETTLED: Duration = Duration::from_secs(1);

/// Frequency of the kernel's clock in its statistics (`USER_HZ`), in hertz.
const TICKS: f64 = 100.0;

/// A line of its `/proc/PID/status`, in bytes.
///
/// # Errors
///
/// If there is none.
pub(crate) fn memory(pid: u32, line: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let found = text.lines().find_map(|text| text.strip_prefix(line));
    let kilobytes = found
        .and_then(|text| text.trim_start_matches(':').trim().strip_suffix(" kB"))
        .and_then(|number| number.parse::<u64>().ok());
    kilobytes
        .map(|kilobytes| kilobytes * 1024)
        .with_context(|| format!("no {line} in {path}"))
}

/// Returns the result of `memory` once it stays the same, or after some seconds.
///
/// # Errors
///
/// Errors of `memory`.
pub(crate) fn settled(memory: impl Fn() -> Result<u64>) -> Result<u64> {
    let deadline = Instant::now() + SETTLED * 10;
    let mut last = memory()?;
    let mut since = Instant::now();
    while since.elapsed() < SETTLED && Instant::now() < deadline {
        thread::sleep(SETTLED / 20);
        let now = memory()?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(last)
}

/// Returns the processor time of its threads, in seconds: their own work and the kernel's for them.
///
/// # Errors
///
/// If it is gone.
pub(crate) fn processor_seconds(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // proc_pid_stat(5): the name may have spaces in it; utime and stime are fields 14 and 15.
    let (_, rest) = text.rsplit_once(") ").context("no name")?;
    let mut fields = rest.split(' ').skip(11);
    let mut ticks = || -> Option<f64> { fields.next()?.parse().ok() };
    let ticks = ticks()
        .zip(ticks())
        .with_context(|| format!("{path}: {text}"))?;
    Ok((ticks.0 + ticks.1) / TICKS)
}

/// The inodes of the sockets that it has open.
///
/// # Errors
///
/// If it is gone.
pub(crate) fn sockets(pid: u32) -> Result<HashSet<u64>> {
    let folder = format!("/proc/{pid}/fd");
    let files = fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))?;
    // A file that is closed meanwhile has no link any more.
    let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    let sockets = links.filter_map(|link| {
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        inode.parse().ok()
    });
    Ok(sockets.collect())
}
