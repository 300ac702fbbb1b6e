//! Makes a container image of the agent: an OCI image with the binary, the shared libraries that it
//! loads, and nothing else.
//!
//! The same files give the same image, byte for byte: no time, no user and no order of this machine is
//! in it.

#![forbid(unsafe_code)]

mod blob;
mod contents;
mod layer;
mod layout;

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;

use self::{contents::Contents, layer::Layer, layout::Layout};

/// Makes an OCI image of the agent.
#[derive(Debug, Parser)]
struct Args {
    /// The agent's binary
    #[arg(long, value_name = "PATH")]
    binary: PathBuf,

    /// The license that goes with it
    #[arg(long, value_name = "PATH")]
    license: PathBuf,

    /// Name and tag by which a container runtime finds the image
    #[arg(long, value_name = "NAME:TAG")]
    name: String,

    /// The revision of the sources, as a label
    #[arg(long, value_name = "COMMIT")]
    revision: Option<String>,

    /// Refuse to make an image of more bytes than this, unpacked
    #[arg(long, value_name = "N")]
    max_bytes: usize,

    /// Folder for the image as an OCI layout; what is there is replaced
    #[arg(long, value_name = "DIR")]
    layout: PathBuf,

    /// File for an archive of that layout, for `ctr images import`, `podman load` and the like
    #[arg(long, value_name = "FILE")]
    archive: PathBuf,
}

fn main() -> ExitCode {
    match make(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn make(args: &Args) -> Result<()> {
    let Args {
        binary,
        license,
        name,
        revision,
        max_bytes,
        layout: path,
        archive,
    } = args;
    let contents = Contents::of(binary, license)?;
    let layer = Layer::of(&contents)?;
    let bytes = layer.unpacked_bytes();
    ensure!(
        bytes <= *max_bytes,
        "the image has {bytes} bytes unpacked, and may have {max_bytes} (--max-bytes)"
    );
    let layout = Layout::new(name, revision.as_deref(), &layer)?;
    layout.write(path)?;
    layout.write_archive(archive)?;
    for file in contents.names() {
        println!("    {file}");
    }
    let length = fs::metadata(archive)
        .with_context(|| format!("cannot read {}", archive.display()))?
        .len();
    println!(
        "{name}, {}, {:.1} MB packed, {:.1} MB on disk",
        layout.digest(),
        length as f64 / 1e6,
        bytes as f64 / 1e6
    );
    Ok(())
}
