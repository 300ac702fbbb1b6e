//! The kernel's version, and faults that it may have.

use std::{fmt, fs};

use nix::sys::utsname::uname;

/// The versions of stable kernels, with their patch levels, from which on `kernel_connect` leaves the address alone that
/// its caller gave (0bdf399342c5 "net: Avoid address overwrite in kernel_connect"), and the first mainline version.
const MENDED_STABLE: [Version; 4] = [
    Version(6, 5, 3),
    Version(6, 4, 16),
    Version(6, 1, 53),
    Version(5, 15, 132),
];
const MENDED: Version = Version(6, 6, 0);

/// A version of Linux: 6.1.53.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u16, u16, u16);

impl Version {
    /// Returns the running kernel's version; `None` if it has no such name.
    pub(crate) fn running() -> Option<Self> {
        let names = uname().ok()?;
        let [release, build] = [names.release(), names.version()].map(|name| name.to_str());
        let signature = fs::read_to_string("/proc/version_signature").ok();
        Self::of(release?, build?, signature.as_deref())
    }

    /// Reads the version in the names of a kernel: `uname -r`, `uname -v`, and the file of Ubuntu. Distributions whose
    /// release names have no patch level name the version of the stable kernel elsewhere.
    fn of(release: &str, build: &str, signature: Option<&str>) -> Option<Self> {
        let of_ubuntu = signature.and_then(|text| text.split_whitespace().next_back());
        let of_debian = build.split_once("Debian ").map(|(_, version)| version);
        let names = [of_ubuntu, of_debian, Some(release)];
        names.into_iter().flatten().find_map(Self::parse)
    }

    /// Reads three numbers with dots between them, and whatever follows.
    fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        let mut numbers = text.get(..end.unwrap_or(text.len()))?.split('.');
        let mut number = || numbers.next()?.parse().ok();
        let (major, minor) = (number()?, number()?);
        Some(Self(major, minor, number().unwrap_or(0)))
    }

    /// Returns whether the kernel may overwrite the address of a server that it connects to. Distributions may have mended
    /// it under an older name.
    fn may_overwrite_addresses(self) -> bool {
        let is_mended =
            |mended: &Self| (self.0, self.1) == (mended.0, mended.1) && self.2 >= mended.2;
        self < MENDED && !MENDED_STABLE.iter().any(is_mended)
    }

    /// Returns a sentence about the kernel's own clients of services, if it may have a fault.
    pub(crate) fn complaint(self) -> Option<String> {
        self.may_overwrite_addresses().then(|| {
            format!(
                "this kernel, Linux {self}, may take the address of a backend for that of the server (mended in 6.6, 6.5.3, \
                 6.4.16, 6.1.53 and by some distributions): a mount by a service's address (NFS, CephFS, SMB) may then hang \
                 once the backend is replaced. Use a newer kernel, or mount by the server's own address"
            )
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(major, minor, patch) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_stable_kernel_is_found_in_the_names_of_distributions() {
        let debian = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.106-3 (2024-08-26)";
        let ubuntu = "Ubuntu 6.8.0-45.45-generic 6.8.12\n";
        let plain = "#1 SMP PREEMPT_DYNAMIC Thu Jan 1 00:00:00 UTC 2026";
        for (release, build, signature, expected) in [
            ("6.1.0-25-amd64", debian, None, Version(6, 1, 106)),
            ("6.8.0-45-generic", plain, Some(ubuntu), Version(6, 8, 12)),
            ("6.12.9", plain, None, Version(6, 12, 9)),
            ("5.14.0-503.el9.x86_64", plain, None, Version(5, 14, 0)),
            ("6.19-rc1", plain, None, Version(6, 19, 0)),
        ] {
            assert_eq!(Version::of(release, build, signature), Some(expected));
        }
        for release in ["", "6", "next-20260101", "6.x.1"] {
            assert_eq!(Version::of(release, plain, None), None, "{release}");
        }
        assert!(Version::running().is_some());
    }

    #[test]
    fn only_kernels_without_any_mending_are_named() {
        for (version, expected) in [
            (Version(6, 6, 0), false),
            (Version(7, 0, 0), false),
            (Version(6, 5, 2), true),
            (Version(6, 5, 3), false),
            (Version(6, 3, 13), true),
            (Version(6, 1, 52), true),
            (Version(6, 1, 53), false),
            (Version(5, 15, 131), true),
            (Version(5, 15, 132), false),
            (Version(5, 14, 0), true),
        ] {
            let complaint = version.complaint();
            assert_eq!(complaint.is_some(), expected, "{version}: {complaint:?}");
        }
        let complaint = Version(6, 1, 27).complaint().unwrap();
        assert!(complaint.starts_with("this kernel, Linux 6.1.27, may take"));
    }
}
