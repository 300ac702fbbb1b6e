//! The LLVM of a compiler, and the linker that goes with it.
//!
//! The compiler hands the linker LLVM's bitcode, which only an LLVM of that release or a later one reads.
//! So everything about the linker follows from what `rustc -vV` reports.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::process;

/// A release of bpf-linker, and its feature for an LLVM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Release {
    llvm: u32,
    pub(super) version: &'static str,
    pub(super) feature: &'static str,
}

/// The releases that go with aya 0.14, by the LLVM that they are built against. A compiler with another
/// LLVM needs a line here.
const RELEASES: [Release; 2] = [
    Release {
        llvm: 22,
        version: "0.13.0",
        feature: "llvm-22",
    },
    Release {
        llvm: 23,
        version: "0.13.0",
        feature: "llvm-23",
    },
];

/// An LLVM for which there is a linker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Llvm {
    /// In full, such as `22.1.8`.
    version: String,
    /// The compiler's own target, such as `x86_64-unknown-linux-gnu`.
    host: String,
    pub(super) release: Release,
}

impl Llvm {
    /// Finds the LLVM of a compiler.
    ///
    /// # Errors
    ///
    /// If the compiler does not start, or there is no linker for its LLVM.
    pub(super) fn of(rustc: &Path) -> Result<Self> {
        Self::parse(&process::output(Command::new(rustc).arg("-vV"))?)
    }

    /// Reads the answer of `rustc -vV`.
    fn parse(answer: &str) -> Result<Self> {
        let field = |name: &str| {
            let line = answer.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
                .with_context(|| format!("`rustc -vV` has no line `{name}`"))
        };
        let version = field("LLVM version:")?;
        let major = version.split('.').next().and_then(|text| text.parse().ok());
        let release = RELEASES
            .into_iter()
            .find(|release| Some(release.llvm) == major);
        let Some(release) = release else {
            let known = RELEASES.map(|release| release.llvm.to_string());
            bail!(
                "the compiler has LLVM {version}, and no release of bpf-linker is known for it, only \
                 for LLVM {}: add a line to RELEASES in xtask/src/setup/llvm.rs",
                known.join(" and ")
            );
        };
        Ok(Self {
            version,
            host: field("host:")?,
            release,
        })
    }

    /// Returns Debian's package with the files that a linker is built against.
    pub(super) fn package(&self) -> String {
        format!("llvm-{}-dev", self.release.llvm)
    }

    /// Finds the folder of this LLVM and its headers; `None` if it is not installed.
    pub(super) fn prefix(&self) -> Option<PathBuf> {
        let major = self.release.llvm;
        let debian = PathBuf::from(format!("/usr/lib/llvm-{major}"));
        if debian.join("bin/llvm-config").exists() {
            return Some(debian);
        }
        [format!("llvm-config-{major}"), "llvm-config".to_owned()]
            .iter()
            .find_map(|program| {
                let ask = |flag| process::output(Command::new(program).arg(flag)).ok();
                let is_it = ask("--version")?.starts_with(&format!("{major}."));
                is_it.then(|| ask("--prefix").map(PathBuf::from)).flatten()
            })
    }

    /// Returns the key of a linker that was built for `target`, a feature or `release`.
    pub(super) fn key(&self, target: &str) -> String {
        let Self {
            version,
            host,
            release,
        } = self;
        format!("bpf-linker-{}-{target}-{version}-{host}", release.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(llvm: &str) -> String {
        format!(
            "rustc 1.96.0 (ac68faa20 2026-05-25)\nbinary: rustc\n\
             host: x86_64-unknown-linux-gnu\nrelease: 1.96.0\nLLVM version: {llvm}\n"
        )
    }

    #[test]
    fn package_feature_and_release_follow_from_the_compiler() {
        for (version, package, feature) in [
            ("22.1.8", "llvm-22-dev", "llvm-22"),
            ("23.1.0", "llvm-23-dev", "llvm-23"),
        ] {
            let llvm = Llvm::parse(&answer(version)).unwrap();
            assert_eq!(llvm.package(), package);
            assert_eq!(llvm.release.feature, feature);
            assert_eq!(
                llvm.key(feature),
                format!("bpf-linker-0.13.0-{feature}-{version}-x86_64-unknown-linux-gnu")
            );
        }
    }

    #[test]
    fn an_llvm_without_a_linker_is_named() {
        for version in ["21.1.8", "24.0.0", "230.1.0", "later"] {
            let error = Llvm::parse(&answer(version)).unwrap_err().to_string();
            assert!(error.contains(&format!("has LLVM {version}, ")), "{error}");
            assert!(error.contains("only for LLVM 22 and 23"), "{error}");
        }
        let error = Llvm::parse("rustc 1.96.0").unwrap_err().to_string();
        assert!(error.contains("no line `LLVM version:`"), "{error}");
    }
}
