//! Makes the types and services of `agent/proto` into `$OUT_DIR/shunt.v1.rs`; in Rust, so that no
//! protoc is needed.

use std::process::ExitCode;

/// The published interface, relative to this package.
const FOLDER: &str = "../proto";
const FILES: [&str; 2] = ["shunt/v1/events.proto", "shunt/v1/inspection.proto"];

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
    let files = protox::compile(FILES, [FOLDER]).map_err(|error| error.to_string())?;
    tonic_prost_build::configure()
        .btree_map(".")
        .compile_fds(files)
        .map_err(|error| format!("cannot generate code from {FOLDER}: {error}"))
}
