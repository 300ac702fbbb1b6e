//! Makes the types and services of `agent/proto` into `$OUT_DIR/shunt.v1.rs`, and their description into
//! `$OUT_DIR/shunt.bin`; in Rust, so that no protoc is needed.

use std::{env, fs, path::Path, process::ExitCode};

/// The published interface, relative to this package.
const FOLDER: &str = "../proto";
const FILES: [&str; 3] = [
    "shunt/v1/control.proto",
    "shunt/v1/events.proto",
    "shunt/v1/inspection.proto",
];

fn main() -> ExitCode {
    match generate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // `cargo::error` is the one thing that cargo shows without the script's other output.
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn generate() -> Result<(), String> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let mut compiler = protox::Compiler::new([FOLDER]).map_err(|error| error.to_string())?;
    compiler
        .include_imports(true)
        .include_source_info(true)
        .open_files(FILES)
        .map_err(|error| format!("cannot compile {FOLDER}: {error}"))?;
    let folder = env::var_os("OUT_DIR").ok_or("cargo says no OUT_DIR")?;
    let description = Path::new(&folder).join("shunt.bin");
    fs::write(&description, compiler.encode_file_descriptor_set())
        .map_err(|error| format!("cannot write {}: {error}", description.display()))?;
    let files = compiler.file_descriptor_set();
    tonic_prost_build::configure()
        .btree_map(".")
        .compile_fds(files)
        .map_err(|error| format!("cannot generate code from {FOLDER}: {error}"))
}
