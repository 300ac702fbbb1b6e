//! The kernel's jiffies, which the programs date by, as a program reads them.
//!
//! No system call returns them: their distance to the monotonic clock is another one at each boot.

use std::io;

use crate::sys::handwritten::{Handwritten, Kind, instruction};

/// Writes what `bpf_jiffies64` returns into its context, a word:
///
/// ```text
/// r6 = r1; call bpf_jiffies64; *(u64 *)(r6 + 0) = r0; r0 = 0; exit
/// ```
const PROGRAM: [u64; 5] = [
    instruction(0xbf, 6, 1, 0),
    instruction(0x85, 0, 0, 118),
    instruction(0x7b, 6, 0, 0),
    instruction(0xb7, 0, 0, 0),
    instruction(0x95, 0, 0, 0),
];

/// A way to read the jiffies.
#[derive(Debug)]
pub struct Jiffies(Handwritten);

impl Jiffies {
    /// Loads the program.
    ///
    /// # Errors
    ///
    /// If the kernel does not take it: it needs `CAP_BPF`.
    pub fn open() -> io::Result<Self> {
        Handwritten::load(Kind::SystemCall, &PROGRAM).map(Self)
    }

    /// Returns the number of jiffies so far, and some that the kernel begins with.
    ///
    /// # Errors
    ///
    /// If the kernel does not run the program.
    pub fn read(&self) -> io::Result<u64> {
        let mut jiffies = [0; 8];
        self.0.run(&mut jiffies)?;
        Ok(u64::from_ne_bytes(jiffies))
    }
}

/// Nanoseconds of the monotonic clock, as a program reads it (`bpf_ktime_get_ns`).
pub fn monotonic() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes the time; every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the number of jiffies in a second, to the nearest: `CONFIG_HZ`. The coarse clocks advance by one
/// jiffy at a time.
///
/// # Errors
///
/// If there is no such clock.
pub(crate) fn per_second() -> io::Result<u32> {
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes the resolution.
    let result = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let jiffy = u32::try_from(resolution.tv_nsec).unwrap_or(0);
    if resolution.tv_sec != 0 || jiffy == 0 {
        return Err(io::Error::other(format!(
            "a coarse clock that advances by {}.{jiffy:09} s",
            resolution.tv_sec
        )));
    }
    Ok((1_000_000_000 + jiffy / 2) / jiffy)
}

#[cfg(test)]
mod tests {
    use std::{
        thread,
        time::{Duration, Instant},
    };

    use shunt_skip::skip;

    use super::*;

    #[test]
    fn jiffies_pass_as_time_does() {
        let Ok(jiffies) = Jiffies::open() else {
            skip("needs root");
            return;
        };
        let hz = per_second().unwrap();
        assert!((100..=1000).contains(&hz), "{hz}");
        let (start, first) = (Instant::now(), jiffies.read().unwrap());
        thread::sleep(Duration::from_millis(300));
        let (passed, expected) = (
            jiffies.read().unwrap() - first,
            start.elapsed().as_millis() as u64 * u64::from(hz) / 1000,
        );
        assert!(
            passed.abs_diff(expected) <= 2,
            "{passed} jiffies in the time of {expected}"
        );
        // `INITIAL_JIFFIES` of linux/jiffies.h: they wrap around five minutes after the boot.
        assert!(first >= (1 << 32) - 300 * u64::from(hz), "{first}");
    }
}
