//! The messages of linkerd's protocol are described twice: in its crate, whose folder no build script
//! gets, and in `agent/serve/proto/linkerd`, of which the build of shunt-serve makes what clients are shown.

use std::{fmt::Debug, path::Path, process::Command};

use serde_json::Value;

/// The crate.
const PACKAGE: &str = "linkerd2-proxy-api";

/// Returns the descriptions of a folder's files, but for what they have from elsewhere.
fn described(folder: &Path) -> impl PartialEq + Debug + use<> {
    let mut compiler = protox::Compiler::new([folder]).unwrap();
    for file in [
        "net.proto",
        "meta.proto",
        "http_types.proto",
        "destination.proto",
        "http_route.proto",
        "grpc_route.proto",
        "opaque_route.proto",
        "tls_route.proto",
        "outbound.proto",
    ] {
        compiler.open_file(file).unwrap();
    }
    compiler.file_descriptor_set()
}

#[test]
fn clients_are_shown_what_the_crate_has() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(workspace)
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{metadata:?}");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let mut packages = metadata["packages"].as_array().unwrap().iter();
    let package = packages.find(|package| package["name"] == PACKAGE).unwrap();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    let theirs = manifest.with_file_name("proto");
    let ours = workspace.join("agent/serve/proto/linkerd");
    assert_eq!(described(&ours), described(&theirs));
}
