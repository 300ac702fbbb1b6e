//! Prometheus' own tool, for the test of the alerts: the user's, or else Debian 12's package.

use std::path::PathBuf;

use anyhow::Result;

use super::{
    fetch::{Download, Sum},
    packaged::Packaged,
};

/// The tested version. Debian's servers drop old packages, so there are two places.
const PROMTOOL: Packaged<'_> = Packaged {
    program: "promtool",
    variable: "SHUNT_PROMTOOL",
    package: Download {
        name: "promtool",
        sum: Sum::Sha256("81d59a24fce84f7fbe97a45a4f2914b6a5881b5cd1db2a6a0e129e515e1a5f55"),
        urls: &[
            "http://deb.debian.org/debian/pool/main/p/prometheus/\
             prometheus_2.42.0+ds-5+deb12u1_amd64.deb",
            "http://archive.debian.org/debian/pool/main/p/prometheus/\
             prometheus_2.42.0+ds-5+deb12u1_amd64.deb",
        ],
    },
};

/// Makes sure that there is a promtool, and returns its binary.
///
/// # Errors
///
/// If the variable names none, or it cannot be fetched.
pub(crate) fn ensure() -> Result<PathBuf> {
    PROMTOOL.ensure()
}
