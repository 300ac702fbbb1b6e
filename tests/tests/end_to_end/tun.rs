//! A tun interface of a test, on which everything goes well.

use std::time::Duration;

use shunt_tests::{Namespace, wait_until};

/// Time that a packet may take.
const SOON: Duration = Duration::from_secs(4);

/// A tun interface; dropping it removes it.
pub(crate) struct Tun(shunt_tests::Tun);

impl Tun {
    /// Makes an interface of this name.
    pub(crate) fn new(namespace: &Namespace, name: &str) -> Self {
        Self(shunt_tests::Tun::new(namespace, name).unwrap())
    }

    /// Has the interface claim to be of this link type (`ARPHRD_*` of `linux/if_arp.h`).
    pub(crate) fn claim(&self, link_type: libc::c_ulong) {
        self.0.claim(link_type).unwrap();
    }

    /// Has a packet come in by the interface.
    pub(crate) fn send(&self, packet: &[u8]) {
        self.0.send(packet).unwrap();
    }

    /// The next packet that goes out by it and that `wanted` takes.
    pub(crate) fn receive(&self, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut buffer = [0; 2048];
        wait_until("a packet leaves by the tun interface", SOON, || {
            let packet = self.0.receive(&mut buffer).ok()??;
            wanted(packet).then(|| packet.to_vec())
        })
        .unwrap()
    }
}
