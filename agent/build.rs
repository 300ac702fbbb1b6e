//! Builds the kernel programs (package `shunt-ebpf`) and puts the object where the agent includes
//! it: `$OUT_DIR/shunt.o`. Makes the types and services of `proto/` into `$OUT_DIR/shunt.v1.rs`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[path = "../xtask/src/toolchain.rs"]
mod toolchain;

use toolchain::{FOLDER, RECORD, RecordError, Toolchain};

/// What the object depends on, relative to the workspace.
const INPUTS: [&str; 5] = [
    "ebpf",
    "common",
    "Cargo.toml",
    "Cargo.lock",
    "xtask/src/toolchain.rs",
];

/// The published interface, relative to this package.
const PROTO_FOLDER: &str = "proto";
const PROTO_FILES: [&str; 2] = ["shunt/v1/events.proto", "shunt/v1/inspection.proto"];

fn main() -> ExitCode {
    match interface().and_then(|()| build()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // `cargo::error` is the one thing that cargo shows without the script's other output.
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

/// Compiles the published interface; in Rust, so that no protoc is needed.
fn interface() -> Result<(), String> {
    println!("cargo::rerun-if-changed={PROTO_FOLDER}");
    let files = protox::compile(PROTO_FILES, [PROTO_FOLDER]).map_err(|error| error.to_string())?;
    tonic_prost_build::configure()
        .btree_map(".")
        .compile_fds(files)
        .map_err(|error| format!("cannot generate code from {PROTO_FOLDER}: {error}"))
}

fn build() -> Result<(), String> {
    let root = root()?;
    for input in INPUTS {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    println!(
        "cargo::rerun-if-changed={}",
        root.join(FOLDER).join(RECORD).display()
    );

    let toolchain = Toolchain::load(&root)
        .map_err(|error: RecordError| format!("{error}: run `cargo xtask setup`"))?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let target_dir = target_dir(&out).join("bpf");
    let object = toolchain.build_object(&root, &target_dir, "shunt-ebpf")?;
    fs::copy(&object, out.join("shunt.o"))
        .map_err(|error| format!("cannot copy {}: {error}", object.display()))?;
    Ok(())
}

/// The workspace: the folder above this package.
fn root() -> Result<PathBuf, String> {
    let package = env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set")?;
    let root = Path::new(&package)
        .parent()
        .ok_or("this package has no parent folder")?;
    Ok(root.to_owned())
}

/// The outer cargo's target folder, which it marks with a tag: debug and release builds share one
/// build of the kernel programs there. The inner cargo locks only its own subfolder.
fn target_dir(out: &Path) -> PathBuf {
    out.ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").exists())
        .unwrap_or(out)
        .to_owned()
}
