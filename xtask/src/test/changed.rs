//! `cargo xtask test --changed`: the tests that a change can reach.
//!
//! A changed file reaches the tests of its package and of all packages that depend on it. Of the tests
//! that need root, it reaches those that a table gives to its room; without a line there, all of them.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{process, workspace};

/// The package with the tests that need root.
const ROOT_TESTS: &str = "shunt-tests";

/// The tests of [`ROOT_TESTS`] that files in a folder reach: beginnings of `binary module::test`. The
/// longest folder that fits decides.
const ROOMS: [(&str, &[&str]); 25] = [
    (".ci", &[]),
    ("agent/catalog/src/consul", &["consul "]),
    ("agent/catalog/src/local", &["end_to_end local_api"]),
    ("agent/kubectl/src", &["kubernetes kubectl"]),
    ("agent/kubernetes/src", &["kubernetes ", "kube_proxy "]),
    (
        "agent/kubernetes/src/controllers",
        &[
            "kubernetes controller",
            "kubernetes workload",
            "kubernetes external",
            "kubernetes route",
        ],
    ),
    ("agent/serve/proto/linkerd", &["end_to_end linkerd"]),
    ("agent/serve/src/linkerd", &["end_to_end linkerd"]),
    ("agent/serve/src/local_api", &["end_to_end local_api"]),
    (
        "agent/serve/src/metrics",
        &[
            "end_to_end alerts",
            "end_to_end metrics",
            "end_to_end service_counters",
            "kubernetes health",
        ],
    ),
    ("agent/serve/src/ui", &["end_to_end page", "end_to_end ui"]),
    (
        "agent/src/cli/config",
        &[
            "end_to_end config",
            "end_to_end hangup",
            "kubernetes manifests",
        ],
    ),
    ("agent/src/cli/consul_lines.rs", &["consul "]),
    (
        "agent/src/cli/controller.rs",
        &[
            "kubernetes controller",
            "kubernetes workload",
            "kubernetes external",
        ],
    ),
    (
        "agent/src/cli/monitor",
        &["end_to_end monitor", "end_to_end flows"],
    ),
    ("agent/src/cli/proxy.rs", &["kubernetes kubectl"]),
    (
        "agent/src/cli/take_over.rs",
        &["end_to_end take_over", "kubernetes beside"],
    ),
    ("agent/src/cli/top", &["end_to_end top"]),
    ("agent/src/cli/trace.rs", &["end_to_end trace"]),
    (
        "deploy",
        &[
            "kubernetes ",
            "end_to_end alerts",
            "end_to_end metrics",
            "end_to_end systemd",
            "end_to_end installed",
        ],
    ),
    (
        "docs",
        &[
            "end_to_end metrics",
            "end_to_end config",
            "kubernetes manifests",
        ],
    ),
    ("tests/benches", &["rulesets "]),
    ("tests/page", &["end_to_end page"]),
    ("tests/src/bin/siege", &["siege "]),
    ("xtask", &[]),
];

/// The tests that a change reaches.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// The packages whose own tests it reaches.
    packages: BTreeSet<String>,
    /// Beginnings of the names of tests that need root: `binary module::test`.
    root_tests: BTreeSet<String>,
}

impl Reach {
    /// Returns the reach of the changes since `revision`, uncommitted ones included.
    ///
    /// # Errors
    ///
    /// Fails if git does not know the revision.
    pub(super) fn since(root: &Path, revision: &str) -> Result<Self> {
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(root).args(["-c", "safe.directory=*"]);
            process::output(git.args(arguments))
        };
        let changed = git(&["diff", "--name-only", "--end-of-options", revision, "--"])
            .with_context(|| format!("git shows no changes since {revision}"))?;
        let new = git(&["ls-files", "--others", "--exclude-standard"])?;
        let files: Vec<&str> = changed.lines().chain(new.lines()).collect();
        let metadata = process::output(workspace::cargo(root).args([
            "metadata",
            "--format-version=1",
            "--no-deps",
            "--locked",
        ]))?;
        let metadata = serde_json::from_str(&metadata).context("cargo metadata printed no JSON")?;
        Ok(Self::of(&files, &packages(root, &metadata)))
    }

    fn of(files: &[&str], packages: &[Package]) -> Self {
        let mut reach = Self::default();
        for file in files {
            let owner = packages
                .iter()
                .filter(|package| Path::new(file).starts_with(&package.folder))
                .max_by_key(|package| package.folder.as_os_str().len());
            match owner {
                Some(package) => add_with_dependents(packages, package, &mut reach.packages),
                // The workspace's manifest and its like reach everything.
                None if !file.contains('/') && !is_text(file) => {
                    reach
                        .packages
                        .extend(packages.iter().map(|package| package.name.clone()));
                }
                None => {}
            }
            // They read documents, manifests and sources of all packages.
            reach.packages.insert("xtask".to_owned());
            reach.root_tests.extend(root_tests(file));
        }
        if !reach.packages.contains(ROOT_TESTS) {
            // Its tests read files of no package: documents, and manifests for a cluster.
            reach.root_tests.retain(|test| !test.is_empty());
        }
        reach
    }

    /// Returns whether the change reaches a binary, by its package's name and its own.
    pub(super) fn has_package(&self, binary: &str) -> bool {
        let package = binary.split('/').next().unwrap_or(binary);
        self.packages.contains(package)
    }

    /// Returns whether the change reaches a test that needs root, by its case's name.
    pub(super) fn has_root_test(&self, case: &str) -> bool {
        self.root_tests.iter().any(|start| case.starts_with(start))
    }
}

/// Returns the beginnings of tests that need root and that the file reaches; the empty one means all.
fn root_tests(file: &str) -> Vec<String> {
    if let Some(test) = file.strip_prefix("tests/tests/") {
        return vec![own_tests(test)];
    }
    if !file.contains('/') && is_text(file) {
        return Vec::new();
    }
    let room = ROOMS
        .iter()
        .filter(|(folder, _)| Path::new(file).starts_with(folder))
        .max_by_key(|(folder, _)| folder.len());
    match room {
        Some((_, tests)) => tests.iter().map(|&test| test.to_owned()).collect(),
        None => vec![String::new()],
    }
}

/// Returns the tests in a file or folder of a test binary. A file that several modules use reaches the
/// whole binary.
fn own_tests(file: &str) -> String {
    let mut parts = file.trim_end_matches(".rs").split('/');
    let binary = parts.next().unwrap_or_default();
    match parts.next() {
        Some(module) if module != "main" && !module.contains("world") => {
            format!("{binary} {module}")
        }
        _ => format!("{binary} "),
    }
}

/// Returns whether people alone read a file.
fn is_text(file: &str) -> bool {
    Path::new(file)
        .extension()
        .is_some_and(|extension| extension == "md")
        || matches!(file, "LICENSE" | ".gitignore")
}

/// A package of the workspace.
#[derive(Debug)]
struct Package {
    name: String,
    /// Its folder, from the workspace's.
    folder: PathBuf,
    /// The names of all that it depends on.
    dependencies: BTreeSet<String>,
}

fn packages(root: &Path, metadata: &Value) -> Vec<Package> {
    let list = metadata["packages"].as_array();
    list.into_iter()
        .flatten()
        .filter_map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str()?);
            let dependencies = package["dependencies"].as_array()?.iter();
            Some(Package {
                name: package["name"].as_str()?.to_owned(),
                folder: manifest.parent()?.strip_prefix(root).ok()?.to_owned(),
                dependencies: dependencies
                    .filter_map(|dependency| dependency["name"].as_str().map(str::to_owned))
                    .collect(),
            })
        })
        .collect()
}

/// Adds a package, and all that depend on it. The datapath holds the kernel programs, which its build
/// script compiles, and the tests that need root run the agent, which they do not link.
fn add_with_dependents(packages: &[Package], package: &Package, found: &mut BTreeSet<String>) {
    if !found.insert(package.name.clone()) {
        return;
    }
    let holder = match &*package.name {
        "shunt-ebpf" => Some("shunt-datapath"),
        "shunt" => Some(ROOT_TESTS),
        _ => None,
    };
    for dependent in packages {
        if dependent.dependencies.contains(&package.name) || Some(&*dependent.name) == holder {
            add_with_dependents(packages, dependent, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn package(name: &str, folder: &str, dependencies: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            folder: folder.into(),
            dependencies: dependencies.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    fn reach(files: &[&str]) -> Reach {
        let packages = [
            package("shunt", "agent", &["shunt-datapath", "shunt-model"]),
            package("shunt-datapath", "agent/datapath", &["shunt-model"]),
            package("shunt-model", "agent/model", &[]),
            package("shunt-ebpf", "ebpf", &[]),
            package("shunt-tests", "tests", &["shunt-datapath"]),
            package("xtask", "xtask", &[]),
        ];
        Reach::of(files, &packages)
    }

    #[test]
    fn a_change_reaches_what_depends_on_its_package() {
        let reach = reach(&["ebpf/src/main.rs"]);
        for (package, expected) in [
            ("shunt-datapath", true),
            ("shunt", true),
            ("xtask/bin/xtask", true),
            ("shunt-model", false),
        ] {
            assert_eq!(reach.has_package(package), expected, "{package}");
        }
        assert!(reach.has_root_test("siege honest_clients_are_served_in_a_siege"));
    }

    #[test]
    fn a_room_reaches_its_own_tests() {
        let cases = [
            (
                "agent/catalog/src/consul/tiers.rs",
                "consul leader::x",
                "kubernetes pods::x",
            ),
            (
                "agent/serve/src/ui/assets.rs",
                "end_to_end page::x",
                "end_to_end snat::x",
            ),
            (
                "tests/tests/end_to_end/snat.rs",
                "end_to_end snat::x",
                "end_to_end page::x",
            ),
            ("tests/tests/packets/node.rs", "packets node::x", "model x"),
            (
                "deploy/base/daemon-set.yaml",
                "kubernetes manifests::x",
                "packets x",
            ),
        ];
        for (file, reached, other) in cases {
            let reach = reach(&[file]);
            assert!(reach.has_root_test(reached), "{file}: {reached}");
            assert!(!reach.has_root_test(other), "{file}: {other}");
        }
        let several = reach(&["agent/serve/src/ui/assets.rs", "tests/tests/consul/main.rs"]);
        assert!(several.has_root_test("consul tls::x"));
        assert!(several.has_root_test("end_to_end ui::x"));
    }

    #[test]
    fn a_page_for_people_reaches_no_test_that_needs_root() {
        let reach = reach(&["README.md"]);
        assert!(reach.has_package("xtask/docs") && !reach.has_package("shunt"));
        assert!(!reach.has_root_test("end_to_end snat::x"));
    }

    #[test]
    fn the_workspaces_manifest_reaches_everything() {
        let reach = reach(&["Cargo.lock"]);
        assert!(reach.has_package("shunt-model"));
        assert!(reach.has_root_test("model x"));
    }

    #[test]
    fn the_rooms_and_their_tests_are_there() {
        let root = workspace::root().unwrap();
        for (room, tests) in ROOMS {
            assert!(root.join(room).exists(), "{room} is not there");
            for test in tests {
                let (binary, module) = test.split_once(' ').unwrap();
                let folder = root.join("tests/tests").join(binary);
                let modules: Vec<String> = fs::read_dir(&folder)
                    .unwrap()
                    .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                    .collect();
                assert!(
                    modules.iter().any(|name| name.starts_with(module)),
                    "{room}: there is no {test}"
                );
            }
        }
    }
}
