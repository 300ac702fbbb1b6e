//! A tun interface: its packets come from and go to a program, without a link header.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    mem,
    os::{fd::AsRawFd as _, unix::fs::OpenOptionsExt as _},
    time::Duration,
};

use shunt_tests::{Namespace, wait_until};

/// How long a packet may take.
const SOON: Duration = Duration::from_secs(4);

/// A tun interface; dropping it removes it.
pub(crate) struct Tun(File);

impl Tun {
    /// Makes an interface of this name.
    pub(crate) fn new(namespace: &Namespace, name: &str) -> Self {
        let tun = namespace.enter(|| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open("/dev/net/tun")
                .unwrap()
        });
        // SAFETY: all bits 0 are an empty name and no flags.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
        // SAFETY: the kernel reads and writes the request (`tun.rst`).
        let made = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        assert_eq!(made, 0, "{}", io::Error::last_os_error());
        Self(tun)
    }

    /// Has the interface claim to be of this link type (`ARPHRD_*` of `linux/if_arp.h`).
    pub(crate) fn claim(&self, link_type: libc::c_ulong) {
        // SAFETY: the kernel takes the number itself.
        let set = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TUNSETLINK, link_type) };
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
    }

    /// Has a packet come in by the interface.
    pub(crate) fn send(&mut self, packet: &[u8]) {
        assert_eq!(self.0.write(packet).unwrap(), packet.len());
    }

    /// The next packet that goes out by it and that `wanted` takes.
    pub(crate) fn receive(&mut self, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut buffer = [0; 2048];
        wait_until("a packet leaves by the tun interface", SOON, || {
            let length = self.0.read(&mut buffer).ok()?;
            let packet = &buffer[..length];
            wanted(packet).then(|| packet.to_vec())
        })
        .unwrap()
    }
}
