//! `cargo xtask image`: the agent as a container image.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{build, process, setup, workspace};

/// How large the image may be where it is unpacked: every node has it.
const MAX_BYTES: usize = 40_000_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name and tag by which a container runtime finds the image
    #[arg(long, value_name = "NAME:TAG", default_value = concat!("shunt:", env!("CARGO_PKG_VERSION")))]
    name: String,
    /// Where the image goes, as a folder and as a file of the same name with .tar [default:
    /// target/image/shunt]
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
}

/// Builds the image of the released agent, and says where it is.
pub(crate) fn main(args: &Args) -> Result<()> {
    let Args { name, output } = args;
    setup::ensure(setup::Needs::Build)?;
    let root = workspace::root()?;
    let agent = build::released_agent(&root)?;
    let layout = match output {
        Some(output) => output.clone(),
        None => workspace::output("image")?.join("shunt"),
    };
    make(&root, &agent, name, &layout, Some(MAX_BYTES))?;
    println!("{}", archive(&layout).display());
    Ok(())
}

/// Makes the image of an agent at `layout`, and an archive of it beside; refused if it is larger than
/// `max_bytes`, unpacked. An agent that is not optimised is.
pub(crate) fn make(
    root: &Path,
    agent: &Path,
    name: &str,
    layout: &Path,
    max_bytes: Option<usize>,
) -> Result<()> {
    if let Some(folder) = layout.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut image = workspace::cargo(root);
    image
        .args([
            "run",
            "--quiet",
            // Without `--package`, as in every build: with the same features of dependencies.
            "--bin",
            "shunt-image",
            "--",
            "--binary",
        ])
        .arg(agent)
        .arg("--license")
        .arg(root.join("LICENSE"))
        .args(["--name", name, "--layout"])
        .arg(layout)
        .arg("--archive")
        .arg(archive(layout));
    if let Some(max_bytes) = max_bytes {
        image.arg("--max-bytes").arg(max_bytes.to_string());
    }
    // A copy of the sources without its history is as good.
    let revision = Command::new("git")
        .current_dir(root)
        .args(["rev-parse", "HEAD"])
        .output();
    if let Ok(revision) = revision
        && revision.status.success()
    {
        let revision = String::from_utf8_lossy(&revision.stdout);
        image.args(["--revision", revision.trim()]);
    }
    process::step("make the image", &mut image)
}

/// The file beside a layout that has all of it.
fn archive(layout: &Path) -> PathBuf {
    layout.with_added_extension("tar")
}
