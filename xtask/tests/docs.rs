//! The documents name files: they must be there.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The folders that hold what documents name.
const FOLDERS: [&str; 6] = ["agent/", "common/", "docs/", "ebpf/", "tests/", "xtask/"];

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn documents() -> Vec<PathBuf> {
    let docs = fs::read_dir(workspace().join("docs")).unwrap();
    let mut documents: Vec<PathBuf> = docs
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    documents.extend(["README.md", "CONTRIBUTING.md"].map(|name| workspace().join(name)));
    documents
}

/// The paths from the workspace that a text names.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    text.split(move |c| !part(c))
        .map(|word| word.trim_end_matches(['.', '/', '-']))
        .filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)))
}

#[test]
fn every_file_that_a_document_names_is_there() {
    let mut missing = BTreeSet::new();
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for path in paths(&text) {
            if !workspace().join(path).exists() {
                let name = document.file_name().unwrap().to_string_lossy();
                missing.insert(format!("{name}: {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "named, but not there: {missing:#?}");
}

#[test]
fn paths_are_found_in_text() {
    let found: Vec<_> =
        paths("see `agent/src/lib.rs`, [x](docs/a.md#b) and ebpf/src. Not /agent/x").collect();
    assert_eq!(found, ["agent/src/lib.rs", "docs/a.md", "ebpf/src"]);
}
