//! Tun interfaces: their packets come from and go to a program, without a link header.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    mem,
    os::{fd::AsRawFd as _, unix::fs::OpenOptionsExt as _},
};

use nix::libc;

use crate::namespace::Namespace;

/// A tun interface; dropping it removes it.
#[derive(Debug)]
pub struct Tun(File);

impl Tun {
    /// Makes an interface of this name in the namespace.
    ///
    /// # Errors
    ///
    /// Without `/dev/net/tun`, or when the name is taken.
    pub fn new(namespace: &Namespace, name: &str) -> io::Result<Self> {
        let tun = namespace.enter(|| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open("/dev/net/tun")
        })?;
        // SAFETY: all bits 0 are an empty name and no flags.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
        // SAFETY: the kernel reads and writes the request (`tun.rst`).
        match unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
            0 => Ok(Self(tun)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Has the interface claim to be of this link type (`ARPHRD_*` of `linux/if_arp.h`).
    ///
    /// # Errors
    ///
    /// When the kernel refuses, as it does while the interface is up.
    pub fn claim(&self, link_type: libc::c_ulong) -> io::Result<()> {
        // SAFETY: the kernel takes the number itself.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TUNSETLINK, link_type) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Has a packet come in by the interface.
    ///
    /// # Errors
    ///
    /// When the interface is down.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&self.0).write_all(packet)
    }

    /// The next packet that has gone out by it, if there is one; it is cut to the buffer's length.
    ///
    /// # Errors
    ///
    /// When the interface is down.
    pub fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        match (&self.0).read(buffer) {
            Ok(length) => Ok(Some(&buffer[..length])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}
