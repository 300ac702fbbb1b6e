//! The kernel's jiffies, which the programs date by, as a program reads them.
//!
//! No system call gives them: their distance to the monotonic clock is another one at each boot.

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use bytemuck::{Pod, Zeroable};

/// Of `linux/bpf.h`.
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TEST_RUN: libc::c_long = 10;
/// A program that is run by a system call alone (Linux 5.14).
const BPF_PROG_TYPE_SYSCALL: u32 = 31;
/// A program of that type has to have it.
const BPF_F_SLEEPABLE: u32 = 1 << 4;

/// Writes what `bpf_jiffies64` gives into its context, a word:
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

/// A `struct bpf_insn` without an offset.
const fn instruction(code: u8, to: u8, from: u8, immediate: u32) -> u64 {
    code as u64 | (to as u64) << 8 | (from as u64) << 12 | (immediate as u64) << 32
}

/// The part of `union bpf_attr` that loading uses.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct LoadAttributes {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// The part of it that a run uses.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RunAttributes {
    program: u32,
    return_value: u32,
    data_sizes: [u32; 2],
    data: [u64; 2],
    repeat: u32,
    duration: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
}

const _: () = assert!(size_of::<LoadAttributes>() == 48 && size_of::<RunAttributes>() == 64);

/// A way to read the jiffies.
#[derive(Debug)]
pub(crate) struct Jiffies(OwnedFd);

impl Jiffies {
    /// Loads the program.
    ///
    /// # Errors
    ///
    /// If the kernel does not take it: it needs `CAP_BPF`.
    pub(crate) fn open() -> io::Result<Self> {
        let mut attributes = LoadAttributes {
            kind: BPF_PROG_TYPE_SYSCALL,
            instruction_count: PROGRAM.len() as u32,
            instructions: PROGRAM.as_ptr() as u64,
            license: c"Dual MIT/GPL".as_ptr() as u64,
            flags: BPF_F_SLEEPABLE,
            ..LoadAttributes::zeroed()
        };
        let descriptor = call(BPF_PROG_LOAD, &mut attributes)?;
        let descriptor = i32::try_from(descriptor).map_err(io::Error::other)?;
        // SAFETY: the kernel has just made it for us.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// How many there have been, and some that the kernel begins with.
    ///
    /// # Errors
    ///
    /// If the kernel does not run the program.
    pub(crate) fn read(&self) -> io::Result<u64> {
        let mut jiffies = 0_u64;
        let mut attributes = RunAttributes {
            program: self.0.as_raw_fd().cast_unsigned(),
            context_size_in: size_of::<u64>() as u32,
            // The kernel writes the context back where it came from.
            context_in: (&raw mut jiffies) as u64,
            ..RunAttributes::zeroed()
        };
        call(BPF_PROG_TEST_RUN, &mut attributes)?;
        Ok(jiffies)
    }
}

/// How many jiffies a second has, to the nearest: `CONFIG_HZ`. The coarse clocks advance by one
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

fn call<T: Pod>(command: libc::c_long, attributes: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads and writes the attributes, and what they point at: a program and a
    // licence that are constant, and a context that the caller holds.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>()) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        thread,
        time::{Duration, Instant},
    };

    use super::*;

    #[test]
    fn jiffies_pass_as_time_does() {
        let Ok(jiffies) = Jiffies::open() else {
            eprintln!("skipped: it needs root");
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
