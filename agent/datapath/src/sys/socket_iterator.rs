//! An iterator over UDP sockets.

use std::{
    fs::File,
    io::{self, ErrorKind, Read as _},
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    thread,
};

use aya_obj::generated::{
    bpf_attach_type::BPF_TRACE_ITER,
    bpf_cmd::{self, BPF_ITER_CREATE, BPF_LINK_CREATE},
};
use bytemuck::{NoUninit, Pod, Zeroable};

/// The kernel gives at most so much at once.
const AT_ONCE: usize = 1 << 15;

/// A link between a program and all UDP sockets (Linux 5.9). The agent may read any number of times what
/// the program writes for each socket.
#[derive(Debug)]
pub(crate) struct SocketIterator(OwnedFd);

/// The part of `union bpf_attr` that `BPF_LINK_CREATE` uses.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct LinkAttributes {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    iter_info: u64,
    iter_info_len: u32,
    padding: u32,
}

/// The part of `union bpf_attr` that `BPF_ITER_CREATE` uses.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct IterAttributes {
    link_fd: u32,
    flags: u32,
}

impl SocketIterator {
    /// Links `program`, which is of the kind `iter/udp`.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(crate) fn of_udp(program: BorrowedFd<'_>) -> io::Result<Self> {
        let attributes = LinkAttributes {
            prog_fd: program.as_raw_fd().cast_unsigned(),
            attach_type: BPF_TRACE_ITER as u32,
            ..LinkAttributes::zeroed()
        };
        // SAFETY: the one pointer is null.
        unsafe { make(BPF_LINK_CREATE, &attributes) }.map(Self)
    }

    /// All that the program writes. Others of the same processor go first, after each part of it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let attributes = IterAttributes {
            link_fd: self.0.as_raw_fd().cast_unsigned(),
            flags: 0,
        };
        // SAFETY: the attributes have no pointer.
        let iterator = unsafe { make(BPF_ITER_CREATE, &attributes) }?;
        let (mut iterator, mut written) = (File::from(iterator), Vec::new());
        loop {
            let length = written.len();
            written.resize(length + AT_ONCE, 0);
            let read = iterator.read(&mut written[length..]);
            written.truncate(length + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Ok(written),
                Ok(_) => thread::yield_now(),
                // After a million sockets without any output, the kernel asks to go on.
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Makes a call that returns a new file descriptor.
///
/// # Safety
///
/// The pointers in `attributes` are to live memory, as the command demands.
unsafe fn make<T: NoUninit>(command: bpf_cmd, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads the attributes, which are as long as is given, and what they point to.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_long,
            &raw const *attributes,
            size_of::<T>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = i32::try_from(result).map_err(io::Error::other)?;
    // SAFETY: the kernel has made the descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
