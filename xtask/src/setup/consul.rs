//! The real Consul, for the demo and the tests of the source that follows it: the user's own, or else
//! Debian 11's package.

use std::path::PathBuf;

use anyhow::Result;

use super::{
    fetch::{Download, Sum},
    packaged::Packaged,
};

/// The tested version. Later releases of Debian have no Consul, and Debian's servers drop old packages, so
/// there are three places.
const CONSUL: Packaged<'_> = Packaged {
    program: "consul",
    variable: "SHUNT_CONSUL",
    package: Download {
        name: "Consul",
        sum: Sum::Sha256("e4e888bba104daba1d9161f49bfc52649a7e4efd45b1a7ead5bc54f2cb9c89d9"),
        urls: &[
            "http://deb.debian.org/debian/pool/main/c/consul/consul_1.8.7+dfsg1-2+b3_amd64.deb",
            "http://archive.debian.org/debian/pool/main/c/consul/consul_1.8.7+dfsg1-2+b3_amd64.deb",
            "http://snapshot.debian.org/archive/debian/20220601T000000Z/pool/main/c/consul/\
             consul_1.8.7+dfsg1-2+b3_amd64.deb",
        ],
    },
};

/// Makes sure that there is a Consul, and returns its binary.
///
/// # Errors
///
/// If the variable names none, or Consul cannot be fetched.
pub(crate) fn ensure() -> Result<PathBuf> {
    CONSUL.ensure()
}
