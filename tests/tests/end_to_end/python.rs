//! The client in Python that docs/grpc.md shows, run as it stands there.

use shunt_skip::skip;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::world::{World, binary};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/grpc.md");

/// Packages that the document needs.
const PACKAGES: [&str; 3] = ["grpcio", "grpcio-reflection", "protobuf"];

/// The first block of Python in a document.
fn example(document: &str) -> &str {
    let (_, rest) = document.split_once("```python\n").unwrap();
    rest.split_once("```").unwrap().0
}

/// A Python that has the packages, in a folder beside what is built, which is made once; `None`, with a word
/// about it, if it cannot be had.
fn python() -> Option<PathBuf> {
    let folder = binary().with_file_name("python-grpc");
    let python = folder.join("bin/python");
    let has_all = |python: &Path| {
        let look = ["-c", "import grpc, grpc_reflection, google.protobuf"];
        let looked = Command::new(python).args(look).output();
        looked.is_ok_and(|looked| looked.status.success())
    };
    if has_all(&python) {
        return Some(python);
    }
    let run = |program: &Path, arguments: &[&str]| -> Result<(), String> {
        let Output { status, stderr, .. } = Command::new(program)
            .args(arguments)
            .output()
            .map_err(|error| error.to_string())?;
        status
            .success()
            .then_some(())
            .ok_or_else(|| String::from_utf8_lossy(&stderr).into_owned())
    };
    let place = folder.to_str()?;
    let install = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:"];
    let made = run(Path::new("python3"), &["-m", "venv", place])
        .and_then(|()| run(&python, &[&install[..], &PACKAGES].concat()));
    if let Err(error) = made {
        eprintln!("{error}");
        skip(&format!("needs Python with {PACKAGES:?} from PyPI"));
        return None;
    }
    Some(python)
}

#[test]
fn the_example_of_the_document_asks_the_agent() {
    let document = fs::read_to_string(DOCUMENT).unwrap();
    let install = format!("pip install {}", PACKAGES.join(" "));
    assert!(
        document.contains(&install),
        "{install} is not in the document"
    );
    let Some(python) = python() else { return };
    let Some(world) = World::new() else { return };
    let socket = world.agent.socket().to_str().unwrap();
    let script = example(&document);
    assert!(script.contains("/run/shunt/shunt.sock"), "{script}");
    let script = script.replace("/run/shunt/shunt.sock", socket);
    let ran = Command::new(python).args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(said, format!("{} True\n", env!("CARGO_PKG_VERSION")));
}
