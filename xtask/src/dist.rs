//! `cargo xtask dist`: what is installed on a host, as an archive and as a package of Debian's.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::{build, process, setup, strip, workspace};

/// Name of the package.
const NAME: &str = "shunt";

/// Files from the repository: where they are, and where they go.
const FILES: [(&str, &str); 6] = [
    ("LICENSE", "usr/share/doc/shunt/copyright"),
    ("README.md", "usr/share/doc/shunt/README.md"),
    ("CHANGELOG.md", "usr/share/doc/shunt/CHANGELOG.md"),
    (
        "deploy/systemd/shunt.service",
        "usr/lib/systemd/system/shunt.service",
    ),
    (
        "docs/example-events.jsonl",
        "usr/share/doc/shunt/example-events.jsonl",
    ),
    ("deploy/alerts.yaml", "usr/share/doc/shunt/alerts.yaml"),
];

/// The place of the checksum in the manifest of krew.
const NO_SUM: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Paths at which each shell looks for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/shunt"),
    ("zsh", "usr/share/zsh/vendor-completions/_shunt"),
    ("fish", "usr/share/fish/vendor_completions.d/shunt.fish"),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An agent that was built before [default: it is built, optimised]
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// A `kubectl-shunt` that was built before [default: it is built, optimised]
    #[arg(long, value_name = "PATH")]
    kubectl: Option<PathBuf>,
    /// The folder for the archive and the package [default: target/dist]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Makes all of it, and prints where it is.
pub(crate) fn main(args: &Args) -> Result<()> {
    let Args {
        binary,
        kubectl,
        output,
    } = args;
    let root = workspace::root()?;
    let binary = match binary {
        Some(binary) => binary.clone(),
        None => {
            setup::ensure(setup::Needs::Build)?;
            build::released_agent(&root)?
        }
    };
    let kubectl = match kubectl {
        Some(kubectl) => kubectl.clone(),
        None => build::released_kubectl(&root)?,
    };
    let output = match output {
        Some(output) => output.clone(),
        None => workspace::output("dist")?,
    };
    let version = env!("CARGO_PKG_VERSION");
    let tree = output.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).with_context(|| format!("cannot remove {}", tree.display()))?;
    }
    stage(&root, &binary, &tree)?;
    put_program(&kubectl, &tree.join("usr/bin/kubectl-shunt"))?;
    let archive = output.join(format!("{NAME}-{version}-x86_64.tar.gz"));
    pack(&tree, &archive)?;
    let package = output.join(format!("{NAME}_{version}_amd64.deb"));
    package_of(&tree, version, &package)?;
    let manifest = output.join("shunt.yaml");
    write(&manifest, krew_manifest(&root, &archive)?.as_bytes())?;
    for made in [archive, package, manifest] {
        println!("{}", made.display());
    }
    Ok(())
}

/// Puts all that is installed below `tree`.
fn stage(root: &Path, binary: &Path, tree: &Path) -> Result<()> {
    put_program(binary, &tree.join("usr/bin/shunt"))?;
    for (from, to) in FILES {
        install(&root.join(from), &tree.join(to), 0o644)?;
    }
    // What is made of the program is made by the program that is shipped.
    process::run(
        Command::new(binary)
            .arg("man")
            .arg(tree.join("usr/share/man/man1")),
    )?;
    for (shell, to) in COMPLETIONS {
        let text = process::output(Command::new(binary).args(["completions", shell]))?;
        write(&tree.join(to), text.as_bytes())?;
    }
    let description = tree.join("usr/share/shunt/shunt.protoset");
    folder_of(&description)?;
    process::run(Command::new(binary).arg("description").arg(&description))
}

/// Puts a program in its place.
fn put_program(binary: &Path, installed: &Path) -> Result<()> {
    strip::strip(binary, installed)?;
    set_mode(installed, 0o755)
}

/// Returns the manifest of krew with the archive's checksum.
fn krew_manifest(root: &Path, archive: &Path) -> Result<String> {
    let path = root.join("deploy/krew/shunt.yaml");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let summed = process::output(Command::new("sha256sum").arg(archive))?;
    let sum = summed.split_whitespace().next().unwrap_or_default();
    ensure!(
        text.contains(NO_SUM),
        "{} has no place for a checksum",
        path.display()
    );
    Ok(text.replace(NO_SUM, sum))
}

/// All of it in one file, the same for the same content.
fn pack(tree: &Path, archive: &Path) -> Result<()> {
    process::run(
        Command::new("tar")
            .args([
                "--create",
                "--gzip",
                "--sort=name",
                "--mtime=@0",
                "--owner=0",
                "--group=0",
                "--numeric-owner",
                "--exclude=./DEBIAN",
                "--directory",
            ])
            .arg(tree)
            .arg("--file")
            .arg(archive)
            .arg("."),
    )
}

/// The package of Debian's.
fn package_of(tree: &Path, version: &str, package: &Path) -> Result<()> {
    let control = format!(
        "Package: {NAME}\n\
         Version: {version}\n\
         Architecture: amd64\n\
         Maintainer: Shunt <shunt@localhost>\n\
         Section: net\n\
         Priority: optional\n\
         Depends: libc6\n\
         Description: in-kernel translation of services\n \
         An agent that translates Kubernetes-style services by eBPF programs in the\n \
         Linux kernel, with its commands, man pages and a unit for systemd.\n"
    );
    write(&tree.join("DEBIAN/control"), control.as_bytes())?;
    process::run(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "--build"])
            .arg(tree)
            .arg(package)
            .stdout(std::process::Stdio::null()),
    )
    .context("a package of Debian's is made by dpkg-deb, which Debian's package dpkg has")
}

fn install(from: &Path, to: &Path, mode: u32) -> Result<()> {
    folder_of(to)?;
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    set_mode(to, mode)
}

fn set_mode(to: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(to, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the mode of {}", to.display()))
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    folder_of(path)?;
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

fn folder_of(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}
