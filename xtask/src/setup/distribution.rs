//! The distributions whose packages are known by name.

use std::fs;

/// A family of distributions with one set of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distribution {
    Debian,
    Fedora,
    Arch,
    Suse,
}

/// The packages that have one program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packages {
    pub(super) debian: &'static str,
    pub(super) fedora: &'static str,
    pub(super) arch: &'static str,
    pub(super) suse: &'static str,
}

impl Packages {
    /// A package that all of them call the same.
    pub(super) const fn same(name: &'static str) -> Self {
        Self {
            debian: name,
            fedora: name,
            arch: name,
            suse: name,
        }
    }

    /// The name in a distribution.
    pub(super) const fn of(self, distribution: Distribution) -> &'static str {
        match distribution {
            Distribution::Debian => self.debian,
            Distribution::Fedora => self.fedora,
            Distribution::Arch => self.arch,
            Distribution::Suse => self.suse,
        }
    }
}

impl Distribution {
    /// The family of this machine's.
    pub(super) fn of_machine() -> Self {
        Self::parse(&fs::read_to_string("/etc/os-release").unwrap_or_default())
    }

    /// Reads os-release(5). The names of Debian serve where the family is not known.
    fn parse(release: &str) -> Self {
        let field = |name: &str| {
            let line = release.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim_matches('"')
        };
        // The distribution itself, and then those that it is like, the nearest first.
        let names = field("ID=").split_whitespace();
        let mut names = names.chain(field("ID_LIKE=").split_whitespace());
        names
            .find_map(|name| match name {
                "debian" | "ubuntu" => Some(Self::Debian),
                "fedora" | "rhel" | "centos" => Some(Self::Fedora),
                "arch" => Some(Self::Arch),
                "suse" | "opensuse" => Some(Self::Suse),
                _ => None,
            })
            .unwrap_or(Self::Debian)
    }

    /// The command that installs packages.
    pub(super) fn install(self, packages: &[&str]) -> String {
        let command = match self {
            Self::Debian => "apt-get install",
            Self::Fedora => "dnf install",
            Self::Arch => "pacman -S",
            Self::Suse => "zypper install",
        };
        format!("{command} {}", packages.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_is_the_nearest_that_is_known() {
        let cases = [
            ("ID=debian\n", Distribution::Debian),
            (
                "NAME=x\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n",
                Distribution::Debian,
            ),
            (
                "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n",
                Distribution::Fedora,
            ),
            ("ID=arch\n", Distribution::Arch),
            (
                "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n",
                Distribution::Suse,
            ),
            ("ID=unheard\n", Distribution::Debian),
            ("", Distribution::Debian),
        ];
        for (release, expected) in cases {
            assert_eq!(Distribution::parse(release), expected, "{release:?}");
        }
    }
}
