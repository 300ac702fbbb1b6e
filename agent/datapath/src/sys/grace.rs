//! Waiting for the packets that are on their way through a program.

use std::io;

/// `MEMBARRIER_CMD_GLOBAL` of `linux/membarrier.h`.
const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;

/// Returns after every program that was running has ended.
///
/// Programs run inside RCU read-side sections; `membarrier(2)` with `MEMBARRIER_CMD_GLOBAL` is
/// the one system call that waits for an RCU grace period and does nothing else. It takes
/// milliseconds, so one call serves a whole batch.
pub(crate) fn wait_for_readers() -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_kernel_can_wait_for_readers() {
        super::wait_for_readers().unwrap();
    }
}
