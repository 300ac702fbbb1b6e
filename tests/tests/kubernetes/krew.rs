//! The manifest of krew, with what krew itself checks: `internal/index/validation` of krew 0.4.

use std::fs;

use serde_json::Value;

/// Returns the manifest.
fn manifest() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/krew/shunt.yaml");
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the text in this place, which is not empty.
#[track_caller]
fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    let found = value.pointer(path).and_then(Value::as_str);
    found
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| panic!("no {path} in {value:#}"))
}

#[test]
fn krew_accepts_the_form_of_the_manifest() {
    let manifest = manifest();
    assert_eq!(
        text(&manifest, "/apiVersion"),
        "krew.googlecontainertools.github.com/v1alpha2"
    );
    assert_eq!(text(&manifest, "/kind"), "Plugin");
    // It is called as `kubectl NAME`, and the file has its name.
    assert_eq!(text(&manifest, "/metadata/name"), "shunt");
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    assert_eq!(text(&manifest, "/spec/version"), version);
    let short = text(&manifest, "/spec/shortDescription");
    assert!(short.len() <= 50 && !short.ends_with('.'), "{short}");
    text(&manifest, "/spec/description");
    assert!(text(&manifest, "/spec/homepage").starts_with("https://"));
    assert!(
        text(&manifest, "/spec/caveats").contains("root on"),
        "it has to warn"
    );
}

#[test]
fn the_manifest_takes_what_is_in_the_archive() {
    let manifest = manifest();
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    // Shunt is built for no other.
    let [platform] = &platforms[..] else {
        panic!("{platforms:#?}");
    };
    assert_eq!(text(platform, "/selector/matchLabels/os"), "linux");
    assert_eq!(text(platform, "/selector/matchLabels/arch"), "amd64");
    let archive = concat!("shunt-", env!("CARGO_PKG_VERSION"), "-x86_64.tar.gz");
    assert!(text(platform, "/uri").ends_with(archive));
    let sum = text(platform, "/sha256");
    assert!(
        sum.len() == 64 && sum.chars().all(|c| c.is_ascii_hexdigit()),
        "{sum}"
    );
    assert_eq!(text(platform, "/bin"), "kubectl-shunt");
    let files = platform["files"].as_array().unwrap();
    let from: Vec<&str> = files.iter().map(|file| text(file, "/from")).collect();
    let dist = concat!(env!("CARGO_MANIFEST_DIR"), "/../xtask/src/dist.rs");
    let dist = fs::read_to_string(dist).unwrap();
    for path in &from {
        let path = path.strip_prefix("./").unwrap();
        assert!(
            dist.contains(&format!("\"{path}\"")),
            "{path} is not in the archive"
        );
    }
    assert!(from.contains(&"./usr/bin/kubectl-shunt"), "{from:?}");
}
