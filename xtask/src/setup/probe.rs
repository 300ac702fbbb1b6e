//! The proofs that a toolchain works: a quick one for every command, a real one when it is new.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail, ensure};

use super::{linker, llvm::Llvm, nightly, version};
use shunt_toolchain::{FOLDER, TARGET, Toolchain};

use crate::process;

/// The smallest program that the compiler, `core`, the linker and BTF are all needed for.
const PROGRAM: &str = r#"
#![no_std]
#![no_main]

#[unsafe(no_mangle)]
#[unsafe(link_section = "socket")]
pub extern "C" fn probe(context: *const u32) -> u32 {
    (context as u64).count_ones()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
"#;

/// Its package: a workspace of its own, compiled as the kernel programs are. Cargo refuses a compiler here
/// already that is too old for them.
const MANIFEST: &str = concat!(
    r#"
[package]
name = "probe"
edition = "2024"
rust-version = ""#,
    env!("CARGO_PKG_RUST_VERSION"),
    r#""

[[bin]]
name = "probe"
path = "main.rs"

[profile.release]
panic = "abort"
lto = true
codegen-units = 1
debug = 2

[workspace]
"#
);

/// The file beside the record that names the toolchain that was proved to work.
const PROOF: &str = "proof";

/// Checks in well under a second that nothing of a recorded toolchain was removed or replaced.
pub(super) fn still_there(root: &Path, toolchain: &Toolchain) -> Result<()> {
    let Toolchain {
        way: _,
        cargo,
        rustc,
        version: recorded,
        args,
    } = toolchain;
    let found = version(rustc)?;
    ensure!(found == *recorded, "`{recorded}` was replaced by `{found}`");
    process::output(Command::new(cargo).arg("--version"))?;
    let core = if args.is_empty() {
        has_core(rustc)?
    } else {
        nightly::has_sources(rustc)
    };
    ensure!(core, "the core library for {TARGET} is missing");
    linker::check(root, &Llvm::of(rustc)?)
}

/// Builds a tiny program, unless this toolchain did that before for the same `rust-version` and linker.
pub(super) fn once(root: &Path, toolchain: &Toolchain) -> Result<()> {
    let path = root.join(FOLDER).join(PROOF);
    let proof = format!(
        "{}\n{}\n{}\n",
        toolchain.version,
        env!("CARGO_PKG_RUST_VERSION"),
        Llvm::of(&toolchain.rustc)?.release.version
    );
    if fs::read_to_string(&path).is_ok_and(|found| found == proof) {
        return Ok(());
    }
    builds(root, toolchain)?;
    fs::write(&path, proof).with_context(|| format!("cannot write {}", path.display()))
}

/// Forgets that a toolchain was proved to work.
pub(super) fn forget(root: &Path) {
    drop(fs::remove_file(root.join(FOLDER).join(PROOF)));
}

/// Returns whether a compiled `core` for BPF comes with this compiler.
fn has_core(rustc: &Path) -> Result<bool> {
    let folder = process::output(Command::new(rustc).args([
        "--print",
        "target-libdir",
        "--target",
        TARGET,
    ]))?;
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(false);
    };
    Ok(entries
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-")))
}

/// Builds a tiny program: shows what the parts cannot, such as a linker for an older LLVM.
fn builds(root: &Path, toolchain: &Toolchain) -> Result<()> {
    let folder = root.join(FOLDER).join("probe");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("Cargo.toml"), MANIFEST))
        .and_then(|()| fs::write(folder.join("main.rs"), PROGRAM))
        .with_context(|| format!("cannot write into {}", folder.display()))?;
    let output = toolchain
        .cargo_build(root, &folder.join("target"))
        .args(["--release", "--quiet", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .output()
        .with_context(|| format!("cannot run {}", toolchain.cargo.display()))?;
    if !output.status.success() {
        bail!(
            "cannot build a BPF program: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))
}
