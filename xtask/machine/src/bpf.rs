//! Programs for the kernel, as small as they can be.

use std::{
    io,
    os::fd::{FromRawFd as _, OwnedFd},
};

/// The command of bpf(2) that loads a program.
const PROG_LOAD: libc::c_long = 5;

/// A program on an interface, `BPF_PROG_TYPE_SCHED_CLS`.
const SCHED_CLS: u32 = 3;

/// `bpf_loop`, by which the programs repeat themselves: Linux 5.17.
const LOOP: i32 = 181;

/// The fields of `union bpf_attr` that loading needs; the kernel takes those behind them as zero.
#[repr(C)]
struct Load {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
}

/// An instruction: its code, and the number that is part of it. Its registers are r0.
const fn instruction(code: u8, immediate: i32) -> u64 {
    code as u64 | (immediate as u32 as u64) << 32
}

/// `r0 = number`, `call number`, `exit`.
const SET: u8 = 0xb7;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Loads a program that does nothing, and closes it.
///
/// # Errors
///
/// If the kernel has no such programs, or this process may not load them.
pub(crate) fn load_nothing() -> io::Result<()> {
    load(&[instruction(SET, 0), instruction(EXIT, 0)], &mut [])
}

/// Returns whether the kernel has `bpf_loop`. The verifier refuses a call without arguments in any case; its
/// reason differs if there is no such helper. libbpf probes for helpers in the same way.
pub(crate) fn has_loop() -> bool {
    let mut log = [0; 4096];
    let program = [instruction(CALL, LOOP), instruction(EXIT, 0)];
    if load(&program, &mut log).is_ok() {
        return true;
    }
    let log = String::from_utf8_lossy(&log);
    !["invalid func ", "unknown func ", "cannot use helper "]
        .iter()
        .any(|reason| log.contains(reason))
}

/// Loads a program, and closes it. The verifier writes its reasons to `log`, unless that is empty.
fn load(program: &[u64], log: &mut [u8]) -> io::Result<()> {
    let license = c"GPL";
    let attributes = Load {
        prog_type: SCHED_CLS,
        insn_cnt: program.len() as u32,
        insns: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buf: if log.is_empty() {
            0
        } else {
            log.as_mut_ptr() as u64
        },
    };
    // SAFETY: the kernel reads as many bytes of the attributes as they have, reads the program and the
    // license, and writes to the log; all of them live until the call is over.
    let loaded = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            PROG_LOAD,
            &raw const attributes,
            size_of::<Load>(),
        )
    };
    let descriptor = i32::try_from(loaded).unwrap_or(-1);
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
    Ok(())
}
