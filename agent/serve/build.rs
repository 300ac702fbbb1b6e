//! Makes the description of linkerd's API, of which `proto/linkerd` has the messages, into
//! `$OUT_DIR/linkerd.bin`: clients that ask what is served are shown it.

use std::{env, fs, path::Path, process::ExitCode};

fn main() -> ExitCode {
    match describe() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn describe() -> Result<(), String> {
    const FOLDER: &str = "proto/linkerd";
    println!("cargo::rerun-if-changed={FOLDER}");
    let mut compiler = protox::Compiler::new([FOLDER]).map_err(|error| error.to_string())?;
    compiler
        .include_imports(true)
        .open_files(["destination.proto", "outbound.proto"])
        .map_err(|error| format!("cannot compile {FOLDER}: {error}"))?;
    let folder = env::var_os("OUT_DIR").ok_or("cargo says no OUT_DIR")?;
    let file = Path::new(&folder).join("linkerd.bin");
    fs::write(&file, compiler.encode_file_descriptor_set())
        .map_err(|error| format!("cannot write {}: {error}", file.display()))
}
