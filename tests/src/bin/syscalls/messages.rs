//! System calls that the libraries have no safe form of.

use std::{
    io,
    mem::{MaybeUninit, size_of, zeroed},
    net::SocketAddr,
    os::fd::AsRawFd as _,
    ptr,
};

use nix::libc::{self, IPPROTO_TCP, TCP_INFO, iovec, mmsghdr, socklen_t, tcp_info};
use socket2::{SockAddr, SockAddrStorage, Socket};

/// A reply is one line.
pub(crate) const LONGEST_REPLY: usize = 512;

/// `TCPI_OPT_SYN_DATA` of `linux/tcp.h`: the other side took data with the SYN.
const SYN_DATA: u8 = 32;

/// Returns whether the data of a TCP connection went with its SYN.
pub(crate) fn sent_with_syn(socket: &Socket) -> io::Result<bool> {
    let mut info = MaybeUninit::<tcp_info>::zeroed();
    let mut length = size_of::<tcp_info>() as socklen_t;
    // SAFETY: the kernel writes at most so many bytes there.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            IPPROTO_TCP,
            TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    checked(result)?;
    // SAFETY: all zeros are a value of it, and so is what the kernel has written.
    let info = unsafe { info.assume_init() };
    Ok(info.tcpi_options & SYN_DATA != 0)
}

/// `sendmmsg`: these datagrams, each to its address. Returns how many were sent.
pub(crate) fn send_many(socket: &Socket, datagrams: &[(SocketAddr, &str)]) -> io::Result<usize> {
    let addresses: Vec<SockAddr> = datagrams.iter().map(|(to, _)| (*to).into()).collect();
    let mut slices: Vec<_> = datagrams.iter().map(|(_, text)| slice(text)).collect();
    let mut headers: Vec<_> = addresses
        .iter()
        .zip(&mut slices)
        .map(|(address, slice)| {
            let mut header = header(slice);
            header.msg_hdr.msg_name = address.as_ptr().cast_mut().cast();
            header.msg_hdr.msg_namelen = address.len();
            header
        })
        .collect();
    // SAFETY: the headers point to addresses and slices that live until after the call, which
    // writes to none of them.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            headers.len() as u32,
            0,
        )
    };
    checked(sent)
}

/// `recvmmsg`: so many datagrams, each with the address of its sender. Waits for all of
/// them, or for as long as the socket does.
pub(crate) fn receive_many(
    socket: &Socket,
    count: usize,
) -> io::Result<Vec<(SocketAddr, Vec<u8>)>> {
    let mut buffers = vec![[0_u8; LONGEST_REPLY]; count];
    let mut addresses: Vec<_> = (0..count).map(|_| SockAddrStorage::zeroed()).collect();
    let mut slices: Vec<_> = buffers
        .iter_mut()
        .map(|buffer| iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: LONGEST_REPLY,
        })
        .collect();
    let mut headers: Vec<_> = addresses
        .iter_mut()
        .zip(&mut slices)
        .map(|(address, slice)| {
            let mut header = header(slice);
            header.msg_hdr.msg_namelen = address.size_of();
            header.msg_hdr.msg_name = ptr::from_mut(address).cast();
            header
        })
        .collect();
    // SAFETY: the headers point to buffers and storages of those lengths that live until after it.
    let received = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count as u32,
            0,
            ptr::null_mut(),
        )
    };
    let received = checked(received)?;
    let lengths: Vec<_> = headers
        .iter()
        .map(|header| (header.msg_len as usize, header.msg_hdr.msg_namelen))
        .collect();
    addresses
        .into_iter()
        .zip(buffers)
        .zip(lengths)
        .take(received)
        .map(|((address, buffer), (length, name_length))| {
            // SAFETY: the kernel has written an address of this length there.
            let from = unsafe { SockAddr::new(address, name_length) };
            let from = from.as_socket().ok_or(io::ErrorKind::InvalidData)?;
            Ok((from, buffer[..length].to_vec()))
        })
        .collect()
}

const fn slice(text: &str) -> iovec {
    iovec {
        iov_base: text.as_ptr().cast_mut().cast(),
        iov_len: text.len(),
    }
}

fn header(slice: &mut iovec) -> mmsghdr {
    // SAFETY: all zeros are a header of nothing.
    let mut header: mmsghdr = unsafe { zeroed() };
    header.msg_hdr.msg_iov = slice;
    header.msg_hdr.msg_iovlen = 1;
    header
}

/// Returns the result of a system call, if that is no error.
fn checked(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
