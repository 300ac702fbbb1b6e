//! `cargo xtask image`: the agent as a container image.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{build, process, setup, strip, workspace};

/// The largest image that is shipped, in bytes, unpacked: every node has it.
const MAX_BYTES: usize = 34_000_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name and tag by which a container runtime finds the image
    #[arg(long, value_name = "NAME:TAG", default_value = concat!("shunt:", env!("CARGO_PKG_VERSION")))]
    name: String,
    /// Path of the image, as a folder and as a file of the same name with .tar [default:
    /// target/image/shunt]
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Refuse to make an image of more bytes than this, unpacked
    #[arg(long, value_name = "N", default_value_t = MAX_BYTES)]
    max_bytes: usize,
}

/// Builds the image of the released agent, and prints where it is.
pub(crate) fn main(args: &Args) -> Result<()> {
    let Args {
        name,
        output,
        max_bytes,
    } = args;
    setup::ensure(setup::Needs::Build)?;
    let root = workspace::root()?;
    let agent = build::agent_of_image(&root)?;
    let layout = match output {
        Some(output) => output.clone(),
        None => workspace::output("image")?.join("shunt"),
    };
    make(&root, &agent, name, &layout, *max_bytes)?;
    println!("{}", archive(&layout).display());
    Ok(())
}

/// Makes the image of an agent, without its symbols, at `layout`, and an archive of it beside.
///
/// # Errors
///
/// If the image is larger than `max_bytes`, unpacked.
pub(crate) fn make(
    root: &Path,
    agent: &Path,
    name: &str,
    layout: &Path,
    max_bytes: usize,
) -> Result<()> {
    if let Some(folder) = layout.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let stripped = layout.with_added_extension("binary");
    strip::strip(agent, &stripped)?;
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
        .arg(&stripped)
        .args(["--max-bytes", &max_bytes.to_string()])
        .arg("--license")
        .arg(root.join("LICENSE"))
        .args(["--name", name, "--layout"])
        .arg(layout)
        .arg("--archive")
        .arg(archive(layout));
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
    process::step("make the image", &mut image)?;
    fs::remove_file(&stripped).with_context(|| format!("cannot remove {}", stripped.display()))
}

/// The file beside a layout that has all of it.
fn archive(layout: &Path) -> PathBuf {
    layout.with_added_extension("tar")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_about_clusters_names_the_limit() {
        let page = workspace::root().unwrap().join("docs/install.md");
        let page = fs::read_to_string(page).unwrap();
        let limit = format!(
            "above {} MB unpacked (`--max-bytes`)",
            MAX_BYTES / 1_000_000
        );
        assert!(page.contains(&limit), "docs/install.md lacks: {limit}");
    }
}
