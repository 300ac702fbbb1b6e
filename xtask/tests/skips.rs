//! The record of skipped tests is whole.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The file of the function that makes every skip.
const FUNCTION: &str = "tests/skip/src/lib.rs";

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Adds the Rust files below a folder, without those that cargo builds.
fn add_sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            add_sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns whether a source prints a skip by itself, in whatever layout.
fn prints_a_skip(source: &str) -> bool {
    let packed: String = source.split_whitespace().collect();
    // In pieces: this file is looked at, too.
    ["print", "println", "eprint", "eprintln"]
        .iter()
        .any(|name| packed.contains(&format!("{name}!(\"{}", "skipped")))
}

#[test]
fn one_function_makes_every_skip() {
    assert!(prints_a_skip("eprintln!(\n    \"skipped: no nft\"\n);"));
    let mut sources = Vec::new();
    add_sources(workspace(), &mut sources);
    assert!(sources.len() > 1000, "{}", sources.len());
    let function = workspace().join(FUNCTION);
    let others: Vec<_> = sources
        .iter()
        .filter(|path| **path != function)
        .filter(|path| prints_a_skip(&fs::read_to_string(path).unwrap()))
        .collect();
    assert!(others.is_empty(), "not by shunt_skip::skip: {others:?}");
    assert!(prints_a_skip(&fs::read_to_string(&function).unwrap()));
}

#[test]
fn the_run_before_a_merge_accounts_for_skips() {
    let run = fs::read_to_string(workspace().join(".ci/run")).unwrap();
    assert!(run.lines().any(|line| line == "export CI=true"));
}
