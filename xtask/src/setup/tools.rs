//! The programs that the sandbox, the tests and the benches call.

use std::process::Command;

use anyhow::{Result, bail};

use super::{Needs, debian};
use crate::{process, workspace};

/// A program, and the Debian package that has it.
struct Tool {
    program: &'static str,
    version: &'static str,
    package: &'static str,
}

/// With this, network namespaces are made.
const IP: Tool = Tool {
    program: "ip",
    version: "-Version",
    package: "iproute2",
};

/// With these, rules of kube-proxy's two modes are loaded.
const RULES: [Tool; 2] = [
    Tool {
        program: "nft",
        version: "--version",
        package: "nftables",
    },
    Tool {
        program: "iptables-restore",
        version: "--version",
        package: "iptables",
    },
];

/// With this, what a network card would do for a sender is left to the sender.
const OFFLOADS: [Tool; 1] = [Tool {
    program: "ethtool",
    version: "--version",
    package: "ethtool",
}];

/// With these, a container of the image is run as the manifests say.
const CONTAINERS: [Tool; 2] = [
    Tool {
        program: "runc",
        version: "--version",
        package: "runc",
    },
    Tool {
        program: "kubectl",
        version: "--help",
        package: "kubernetes-client",
    },
];

/// Clients that nobody here wrote, which tests run as processes of a node.
const CLIENTS: [Tool; 4] = [
    Tool {
        program: "curl",
        version: "--version",
        package: "curl",
    },
    Tool {
        program: "dig",
        version: "-v",
        package: "bind9-dnsutils",
    },
    Tool {
        program: "nc",
        version: "-h",
        package: "netcat-openbsd",
    },
    Tool {
        program: "python3",
        version: "--version",
        package: "python3",
    },
];

/// With these, the agent's page is looked at.
const BROWSER: [Tool; 2] = [
    Tool {
        program: "chromium",
        version: "--version",
        package: "chromium",
    },
    Tool {
        program: "node",
        version: "--version",
        package: "nodejs",
    },
];

/// Makes sure that there is a browser, and what drives it.
pub(super) fn browser() -> Result<()> {
    require(&BROWSER)
}

/// Makes sure that the programs are there that are needed. Tests that lack one say that they are
/// skipped.
pub(super) fn ensure(needs: Needs) -> Result<()> {
    match needs {
        Needs::Build => Ok(()),
        Needs::Network => require(&[IP]),
        Needs::Kernels => {
            require(&[IP])?;
            want(&[&RULES[..], &OFFLOADS]);
            Ok(())
        }
        Needs::Test => {
            require(&[IP])?;
            want(&[&RULES[..], &CONTAINERS, &OFFLOADS, &CLIENTS]);
            Ok(())
        }
        Needs::Bench => {
            require(&[IP])?;
            require(&RULES)
        }
    }
}

/// Installs what is missing of each, or says what becomes of tests without it.
fn want(all: &[&[Tool]]) {
    for tools in all {
        if let Err(error) = require(tools) {
            eprintln!("setup: {error:#}: some tests will be skipped");
        }
    }
}

/// Installs those of the programs that are missing.
fn require(tools: &[Tool]) -> Result<()> {
    let missing: Vec<_> = tools.iter().filter(|tool| !tool.is_there()).collect();
    let Some(first) = missing.first() else {
        return Ok(());
    };
    let packages: Vec<_> = missing.iter().map(|tool| tool.package).collect();
    if workspace::is_root() && debian::has_apt() {
        return debian::install_packages(&packages);
    }
    bail!(
        "`{}` is missing: install the package{} {} as root",
        first.program,
        if packages.len() == 1 { "" } else { "s" },
        packages.join(", ")
    );
}

impl Tool {
    fn is_there(&self) -> bool {
        let Self {
            program,
            version,
            package: _,
        } = self;
        process::output(Command::new(program).arg(version)).is_ok()
    }
}
