//! Kernel threads as clients: NFS, CephFS and SMB connect their sockets from them (`kernel_connect`).
//!
//! `xs_tcp_setup_socket` of kernels before 626dfed5fa3b tries again without a pause if `connect` fails with `EPERM`, and
//! the node freezes. So a kernel thread gets `ECONNREFUSED` instead, which every client expects.

use shunt_common::{TCP, socket::EVERY_TASK};

use crate::{
    ctx::sock_addr::{Errno, FAILS, fail},
    maps::constants::TASK_FLAGS,
};

/// `PF_KTHREAD` of linux/sched.h.
#[cfg(target_arch = "bpf")]
const KERNEL_THREAD: u32 = 0x0020_0000;

/// Has a `connect` fail that is not permitted. Returns the result of the program.
#[inline(always)]
pub(crate) fn deny(protocol: u8) -> i32 {
    if is_refused(protocol) {
        fail(Errno::ConnectionRefused)
    } else {
        FAILS
    }
}

/// Returns whether the caller is or may be a kernel thread that must not get `EPERM`.
#[inline(always)]
fn is_refused(protocol: u8) -> bool {
    match TASK_FLAGS.load() {
        0 => false,
        EVERY_TASK => protocol == TCP,
        offset => is_kernel_thread(offset),
    }
}

/// Returns whether the calling task is a kernel thread. `offset`: that of its flags.
#[cfg(target_arch = "bpf")]
#[inline(always)]
fn is_kernel_thread(offset: u32) -> bool {
    use aya_ebpf::helpers::bpf_get_current_task_btf;

    // SAFETY: the kernel's own structure, which has the field there; the verifier checks the offset.
    let flags = unsafe {
        let task = bpf_get_current_task_btf().cast::<u8>();
        task.add(offset as usize).cast::<u32>().read_volatile()
    };
    flags & KERNEL_THREAD != 0
}

/// Built for the host, the programs have processes for callers.
#[cfg(not(target_arch = "bpf"))]
const fn is_kernel_thread(_: u32) -> bool {
    false
}
