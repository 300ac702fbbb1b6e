//! The ways to a toolchain for BPF programs, and in which order a machine tries them.

use std::fmt;

use super::{debian, nightly};
use crate::privilege;

/// One way to a compiler for BPF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// rustup's nightly, with the sources of the standard library already there.
    NightlyReady,
    /// rustup's nightly, after adding what is missing.
    NightlyInstall,
    /// Debian's packages, already there.
    DebianReady,
    /// Debian's packages, after installing them.
    DebianInstall,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NightlyReady => "rustup's nightly compiler",
            Self::NightlyInstall => "rustup's nightly compiler, to be installed",
            Self::DebianReady => "Debian's compiler",
            Self::DebianInstall => "Debian's compiler, to be installed",
        })
    }
}

/// Facts that decide about the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    /// We may install packages.
    pub(super) root: bool,
    /// `apt-get` is here.
    pub(super) apt: bool,
    /// All the packages of the Debian way are installed.
    pub(super) packages: bool,
    /// `rustup` is here.
    pub(super) rustup: bool,
    /// Some nightly of it is complete.
    pub(super) nightly: bool,
    /// The pinned one is.
    pub(super) pinned: bool,
}

impl Facts {
    /// Looks at this machine, and changes nothing.
    pub(super) fn gather() -> Self {
        let apt = debian::has_apt();
        Self {
            root: privilege::is_available(),
            apt,
            packages: apt && debian::is_installed(),
            rustup: nightly::has_rustup(),
            nightly: !nightly::find().is_empty(),
            pinned: nightly::has_pinned(),
        }
    }

    /// The ways worth trying, best first: what is there before what has to be fetched, and packages
    /// (some 20 s) before a compiler from the network.
    pub(super) fn ways(self) -> Vec<Way> {
        let Self {
            root,
            apt,
            packages,
            rustup,
            nightly,
            pinned,
        } = self;
        let ways = [
            (nightly, Way::NightlyReady),
            (packages, Way::DebianReady),
            (apt && root && !packages, Way::DebianInstall),
            // The user's own nightly may be too old.
            (rustup && !pinned, Way::NightlyInstall),
        ];
        ways.into_iter()
            .filter_map(|(open, way)| open.then_some(way))
            .collect()
    }

    /// Returns advice to a person when no way worked.
    pub(super) fn advice(self) -> String {
        let Self {
            root,
            apt,
            packages,
            rustup,
            nightly: _,
            pinned: _,
        } = self;
        let by_rustup = if rustup {
            format!("type `{}`", nightly::command())
        } else {
            format!(
                "get rustup from https://rustup.rs and type `{}`",
                nightly::command()
            )
        };
        let what = match (apt && !packages, root) {
            (true, false) => format!("type `{}` as root", debian::command()),
            (true, true) => format!("check the network, or {by_rustup}"),
            (false, _) => by_rustup,
        };
        format!("{what}, then `cargo xtask setup` again")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Facts = Facts {
        root: false,
        apt: false,
        packages: false,
        rustup: false,
        nightly: false,
        pinned: false,
    };

    #[test]
    fn what_is_there_comes_before_what_must_be_fetched() {
        let cases = [
            ("a bare machine", NOTHING, vec![]),
            (
                "a user's machine with a complete nightly",
                Facts {
                    rustup: true,
                    nightly: true,
                    pinned: true,
                    ..NOTHING
                },
                vec![Way::NightlyReady],
            ),
            (
                "a user's machine with a nightly of another day",
                Facts {
                    rustup: true,
                    nightly: true,
                    ..NOTHING
                },
                vec![Way::NightlyReady, Way::NightlyInstall],
            ),
            (
                "a user's machine with rustup",
                Facts {
                    rustup: true,
                    ..NOTHING
                },
                vec![Way::NightlyInstall],
            ),
            (
                "Debian as root, rustup's nightly incomplete",
                Facts {
                    root: true,
                    apt: true,
                    rustup: true,
                    ..NOTHING
                },
                vec![Way::DebianInstall, Way::NightlyInstall],
            ),
            (
                "the same with the packages",
                Facts {
                    root: true,
                    apt: true,
                    packages: true,
                    rustup: true,
                    ..NOTHING
                },
                vec![Way::DebianReady, Way::NightlyInstall],
            ),
            (
                "Debian as a user, with the packages",
                Facts {
                    apt: true,
                    packages: true,
                    ..NOTHING
                },
                vec![Way::DebianReady],
            ),
            (
                "Debian as a user, without the packages, with rustup",
                Facts {
                    apt: true,
                    rustup: true,
                    ..NOTHING
                },
                vec![Way::NightlyInstall],
            ),
            (
                "Debian as root with a complete nightly",
                Facts {
                    root: true,
                    apt: true,
                    packages: true,
                    rustup: true,
                    nightly: true,
                    pinned: true,
                },
                vec![Way::NightlyReady, Way::DebianReady],
            ),
        ];
        for (machine, facts, expected) in cases {
            assert_eq!(facts.ways(), expected, "{machine}");
        }
    }

    #[test]
    fn advice_is_something_to_type() {
        let user = Facts {
            apt: true,
            ..NOTHING
        };
        let cases = [
            (user, "type `apt-get update && apt-get install"),
            (
                Facts { root: true, ..user },
                "check the network, or get rustup from",
            ),
            (
                NOTHING,
                "get rustup from https://rustup.rs and type `rustup toolchain install",
            ),
            (
                Facts {
                    rustup: true,
                    ..NOTHING
                },
                "type `rustup toolchain install nightly",
            ),
        ];
        for (facts, start) in cases {
            let advice = facts.advice();
            assert!(advice.starts_with(start), "{facts:?}: {advice}");
            assert!(
                advice.ends_with("then `cargo xtask setup` again"),
                "{facts:?}: {advice}"
            );
        }
    }
}
