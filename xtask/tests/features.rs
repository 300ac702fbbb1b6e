//! The builds of a checkout share what they compile: a package of a registry has the same features in
//! each of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::Path,
    process::Command,
};

use serde_json::Value;

/// The packages that cargo compiles, with the features of each.
type Units = BTreeMap<String, BTreeSet<String>>;

/// Returns the packages of registries that a command of cargo compiles.
fn units(arguments: &[&str]) -> Units {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(workspace)
        .args(arguments)
        // Cargo shows its plan only where it takes unstable options.
        .env("RUSTC_BOOTSTRAP", "1")
        .args(["--locked", "-Zunstable-options", "--unit-graph"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut units = Units::new();
    for unit in plan["units"].as_array().unwrap() {
        let package = unit["pkg_id"].as_str().unwrap();
        if package.starts_with("registry+") {
            let what = format!("{package} {} {}", unit["target"]["kind"], unit["mode"]);
            let features = units.entry(what).or_default();
            features.insert(unit["features"].to_string());
        }
    }
    units
}

#[test]
fn tests_find_what_other_builds_have_compiled() {
    let tests = units(&["test", "--no-run"]);
    let builds: [&[&str]; 3] = [
        &[
            "build",
            "--bin",
            "shunt",
            "--bin",
            "kubectl-shunt",
            "--bin",
            "sandbox",
        ],
        &["build", "--bin", "xtask"],
        &["build", "--bin", "shunt-image"],
    ];
    for build in builds {
        for (what, features) in units(build) {
            let known = tests.get(&what);
            assert!(
                known.is_some_and(|known| known.is_superset(&features)),
                "{build:?}: {what} has the features {features:?}, and in tests {known:?}"
            );
        }
    }
}

#[test]
fn kubectl_shunt_is_built_without_the_kernel_programs() {
    let plugin = units(&["build", "--package", "kubectl-shunt"]);
    let names: BTreeSet<&str> = plugin
        .keys()
        .filter_map(|what| what.split(['#', '@', ' ']).nth(1))
        .collect();
    assert!(
        names.contains("kube") && names.contains("tonic"),
        "{names:?}"
    );
    // The datapath has it.
    let bpf: Vec<_> = names
        .iter()
        .filter(|name| name.starts_with("aya"))
        .collect();
    assert!(bpf.is_empty(), "{bpf:?}");
}
