//! The programs that the sandbox, the tests and the benches call.

use std::process::Command;

use anyhow::{Result, bail};

use super::{
    Needs, debian,
    distribution::{Distribution, Packages},
};
use crate::{privilege, process};

/// A program, and the packages that have it.
struct Tool {
    program: &'static str,
    version: &'static str,
    packages: Packages,
}

/// With this, network namespaces are made.
const IP: Tool = Tool {
    program: "ip",
    version: "-Version",
    packages: Packages {
        debian: "iproute2",
        fedora: "iproute",
        arch: "iproute2",
        suse: "iproute2",
    },
};

/// With these, rules of kube-proxy's two modes are loaded.
const RULES: [Tool; 2] = [
    Tool {
        program: "nft",
        version: "--version",
        packages: Packages::same("nftables"),
    },
    Tool {
        program: "iptables-restore",
        version: "--version",
        packages: Packages {
            debian: "iptables",
            fedora: "iptables-nft",
            arch: "iptables",
            suse: "iptables",
        },
    },
];

/// With this, what a network card would do for a sender is left to the sender.
const OFFLOADS: [Tool; 1] = [Tool {
    program: "ethtool",
    version: "--version",
    packages: Packages::same("ethtool"),
}];

/// With this, a tunnel of WireGuard gets its keys.
const TUNNELS: [Tool; 1] = [Tool {
    program: "wg",
    version: "--version",
    packages: Packages::same("wireguard-tools"),
}];

/// With these, a container of the image is run with the settings of the manifests.
const CONTAINERS: [Tool; 2] = [
    Tool {
        program: "runc",
        version: "--version",
        packages: Packages::same("runc"),
    },
    Tool {
        program: "kubectl",
        version: "--help",
        packages: Packages {
            debian: "kubernetes-client",
            fedora: "kubernetes-client",
            arch: "kubectl",
            suse: "kubernetes-client",
        },
    },
];

/// Clients of other projects, which tests run as processes of a node.
const CLIENTS: [Tool; 4] = [
    Tool {
        program: "curl",
        version: "--version",
        packages: Packages::same("curl"),
    },
    Tool {
        program: "dig",
        version: "-v",
        packages: Packages {
            debian: "bind9-dnsutils",
            fedora: "bind-utils",
            arch: "bind",
            suse: "bind-utils",
        },
    },
    Tool {
        program: "nc",
        version: "-h",
        packages: Packages {
            debian: "netcat-openbsd",
            fedora: "netcat",
            arch: "openbsd-netcat",
            suse: "netcat-openbsd",
        },
    },
    Tool {
        program: "python3",
        version: "--version",
        packages: Packages {
            debian: "python3",
            fedora: "python3",
            arch: "python",
            suse: "python3",
        },
    },
];

/// With these, the agent's page is looked at.
const BROWSER: [Tool; 2] = [
    Tool {
        program: "chromium",
        version: "--version",
        packages: Packages::same("chromium"),
    },
    Tool {
        program: "node",
        version: "--version",
        packages: Packages::same("nodejs"),
    },
];

/// Makes sure that there is a browser, and what drives it.
pub(super) fn browser() -> Result<()> {
    require(&BROWSER)
}

/// Makes sure that the programs are there that are needed. Tests that lack one report that they are
/// skipped.
pub(super) fn ensure(needs: Needs) -> Result<()> {
    match needs {
        Needs::Build => Ok(()),
        Needs::Network => require(&[IP]),
        Needs::Kernels => {
            require(&[IP])?;
            want(&[&RULES[..], &OFFLOADS, &TUNNELS]);
            Ok(())
        }
        Needs::Test => {
            require(&[IP])?;
            want(&[&RULES[..], &CONTAINERS, &OFFLOADS, &TUNNELS, &CLIENTS]);
            Ok(())
        }
        Needs::Bench => {
            require(&[IP])?;
            require(&RULES)
        }
    }
}

/// Installs what is missing of each, or prints what becomes of tests without it.
fn want(all: &[&[Tool]]) {
    for tools in all {
        if let Err(error) = require(tools) {
            eprintln!("setup: {error:#}: some tests will be skipped");
        }
    }
}

/// Installs those of the programs that are missing, as far as the distribution has them; an error names the
/// rest.
fn require(tools: &[Tool]) -> Result<()> {
    let absent = || tools.iter().filter(|tool| !tool.is_there());
    let distribution = Distribution::of_machine();
    let packages: Vec<_> = absent()
        .map(|tool| tool.packages.of(distribution))
        .collect();
    if packages.is_empty() {
        return Ok(());
    }
    let mut unknown = Vec::new();
    if privilege::is_available() && debian::has_apt() {
        unknown = debian::install_packages(&packages)?;
    }
    let rest: Vec<_> = absent().collect();
    if rest.is_empty() {
        return Ok(());
    }
    let programs: Vec<_> = rest.iter().map(|tool| tool.program).collect();
    let packages: Vec<_> = rest
        .iter()
        .map(|tool| tool.packages.of(distribution))
        .collect();
    bail!("{}", missing(&programs, &packages, &unknown, distribution));
}

/// Returns the sentence about missing programs and the packages that have them.
fn missing(
    programs: &[&str],
    packages: &[&str],
    unknown: &[&str],
    distribution: Distribution,
) -> String {
    let named = |words: &[&str]| words.join("`, `");
    let verb = if programs.len() == 1 { "is" } else { "are" };
    let mut text = format!("`{}` {verb} missing", named(programs));
    let known: Vec<_> = packages
        .iter()
        .copied()
        .filter(|package| !unknown.contains(package))
        .collect();
    if !known.is_empty() {
        text.push_str(&format!(
            ": type `{}` as root",
            distribution.install(&known)
        ));
    }
    if !unknown.is_empty() {
        text.push_str(&format!(
            " (this distribution has no package {}: get it from its makers)",
            unknown.join(", ")
        ));
    }
    text
}

impl Tool {
    fn is_there(&self) -> bool {
        let Self {
            program,
            version,
            packages: _,
        } = self;
        let mut command = Command::new(program);
        if let Some(path) = privilege::search_path() {
            command.env("PATH", path);
        }
        process::output(command.arg(version)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_brings_it() {
        let cases = [
            (
                missing(&["ip"], &["iproute2"], &[], Distribution::Debian),
                "`ip` is missing: type `apt-get install iproute2` as root",
            ),
            (
                missing(
                    &["runc", "kubectl"],
                    &["runc", "kubernetes-client"],
                    &["kubernetes-client"],
                    Distribution::Debian,
                ),
                "`runc`, `kubectl` are missing: type `apt-get install runc` as root (this \
                 distribution has no package kubernetes-client: get it from its makers)",
            ),
            (
                missing(&["dig"], &["bind-utils"], &[], Distribution::Fedora),
                "`dig` is missing: type `dnf install bind-utils` as root",
            ),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }
}
