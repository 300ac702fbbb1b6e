//! `cargo xtask test --kernel 6.1`: the agent and its tests on another kernel, in a machine of
//! qemu's.
//!
//! The machine boots a kernel of Debian's and sees this host's files, which it cannot change: so
//! the binaries that were built here run there as they are, with the same libraries and tools.
//! What is needed for it is fetched from Debian's archive into a folder of cargo's, and unpacked
//! there; nothing is installed.

mod binaries;
mod chosen;
mod initramfs;
mod machine;
mod packages;
mod report;

use std::{fs, time::Duration};

use anyhow::{Context as _, Result, bail};

use crate::{setup, workspace};
use binaries::Binaries;
use machine::Machine;
use packages::Store;
use report::Report;

/// Time that a machine may take: without KVM, each test takes tens of times what it does here.
const LIMIT: Duration = Duration::from_hours(6);

/// Runs the tests on a kernel of each of these versions; `filters` choose others than the usual.
pub(crate) fn main(versions: &[String], filters: &[String]) -> Result<()> {
    setup::ensure(setup::Needs::Kernels)?;
    let store = Store::open()?;
    let binaries = Binaries::build()?;
    let mut failed = Vec::new();
    for version in versions {
        if let Err(error) = test(&store, &binaries, version, filters) {
            eprintln!("error: {error:#}");
            failed.push(version.as_str());
        }
    }
    if !failed.is_empty() {
        bail!("failed on Linux {}", failed.join(", "));
    }
    Ok(())
}

fn test(store: &Store, binaries: &Binaries, version: &str, filters: &[String]) -> Result<()> {
    let kernel = store.kernel(version)?;
    let qemu = store.qemu()?;
    let busybox = store.busybox()?;
    let folder = store.run(version)?;
    // Copies, since a build may replace the originals while the machine runs.
    let binaries = binaries.copy_to(&folder)?;
    let job = binaries.job(&workspace::root()?, filters)?;
    let initramfs = folder.join("initramfs");
    initramfs::write(&initramfs, &kernel, &busybox, &job)?;
    let machine = Machine {
        qemu: &qemu,
        kernel: &kernel,
        initramfs: &initramfs,
        console: &folder.join("console.log"),
    };
    let mut report = Report::new(&kernel.release, version);
    eprintln!("{}: starting", kernel.release);
    let accelerator = machine.run(LIMIT, |line| {
        println!("{line}");
        report.read(line);
    })?;
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    eprintln!("{report}, {accelerator}");
    report.verdict()
}
