//! The test binaries: built by one call of cargo, and listed by themselves.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::{process, workspace};

/// A test binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binary {
    /// The package and, for an integration test, its target: `shunt-tests/packets`.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// The package's folder, in which cargo runs the tests.
    pub(super) folder: PathBuf,
    /// The target of an integration test.
    pub(super) target: Option<String>,
}

/// Builds the tests that `selection`, arguments for `cargo test`, chooses.
///
/// # Errors
///
/// Fails if cargo does, or if it builds no test.
pub(super) fn build(root: &Path, selection: &[&str]) -> Result<Vec<Binary>> {
    let messages = process::output(
        workspace::cargo(root)
            .args(["test", "--no-run", "--locked"])
            .args(selection)
            .args(["--message-format", "json-render-diagnostics"])
            .stderr(Stdio::inherit()),
    )?;
    let binaries = parse(&messages)?;
    if binaries.is_empty() {
        bail!("cargo built no test");
    }
    Ok(binaries)
}

/// Reads cargo's messages, one JSON object a line.
fn parse(messages: &str) -> Result<Vec<Binary>> {
    let mut binaries = Vec::new();
    for line in messages.lines() {
        let message: Value =
            serde_json::from_str(line).with_context(|| format!("cargo printed `{line}`"))?;
        if message["profile"]["test"] != true {
            continue;
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (Some(path), Some(manifest), Some(target)) = (
            text(&message["executable"]),
            text(&message["manifest_path"]),
            text(&message["target"]["name"]),
        ) else {
            continue;
        };
        let folder = Path::new(&manifest)
            .parent()
            .context("a manifest is in no folder")?
            .to_owned();
        let package = package(text(&message["package_id"]).unwrap_or_default(), &folder);
        let kind = message["target"]["kind"][0].as_str();
        let (name, target) = match kind {
            Some("test") => (format!("{package}/{target}"), Some(target)),
            Some("bin") => (format!("{package}/bin/{target}"), None),
            _ => (package, None),
        };
        binaries.push(Binary {
            name,
            path: path.into(),
            folder,
            target,
        });
    }
    Ok(binaries)
}

/// Returns the package's name. An id ends in `#name@version`, or in `#version` if the folder has the
/// package's name.
fn package(id: String, folder: &Path) -> String {
    match id
        .rsplit_once('#')
        .and_then(|(_, last)| last.split_once('@'))
    {
        Some((name, _)) => name.to_owned(),
        None => folder
            .file_name()
            .map_or(id, |name| name.to_string_lossy().into_owned()),
    }
}

impl Binary {
    /// A command that runs the binary as cargo does.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// Returns the names of its tests that are not ignored.
    ///
    /// # Errors
    ///
    /// Fails if the binary does not list its tests.
    pub(super) fn tests(&self) -> Result<Vec<String>> {
        let list = |more: &[&str]| {
            let mut command = self.command();
            command.args(["--list", "--format", "terse"]).args(more);
            process::output(&mut command)
        };
        let ignored = list(&["--ignored"])?;
        let ignored: HashSet<&str> = names(&ignored).collect();
        let all = list(&[])?;
        Ok(names(&all)
            .filter(|name| !ignored.contains(name))
            .map(str::to_owned)
            .collect())
    }
}

/// The tests in a terse list: `name: test`.
fn names(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| line.strip_suffix(": test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, manifest: &str, kind: &str, target: &str, test: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":"{manifest}","target":{{"kind":["{kind}"],"name":"{target}"}},"profile":{{"test":{test}}},"executable":"/t/{target}-1"}}"#
        )
    }

    #[test]
    fn a_binary_is_named_by_its_package_and_target() {
        let messages = [
            message(
                "path+file:///s/common#shunt-common@0.1.0",
                "/s/common/Cargo.toml",
                "lib",
                "shunt_common",
                true,
            ),
            message(
                "path+file:///s/xtask#0.1.0",
                "/s/xtask/Cargo.toml",
                "bin",
                "xtask",
                true,
            ),
            message(
                "path+file:///s/tests#shunt-tests@0.1.0",
                "/s/tests/Cargo.toml",
                "test",
                "packets",
                true,
            ),
            message(
                "path+file:///s/tests#shunt-tests@0.1.0",
                "/s/tests/Cargo.toml",
                "bin",
                "sandbox",
                false,
            ),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let binaries = parse(&messages.join("\n")).unwrap();
        let found: Vec<(&str, Option<&str>)> = binaries
            .iter()
            .map(|binary| (binary.name.as_str(), binary.target.as_deref()))
            .collect();
        assert_eq!(
            found,
            [
                ("shunt-common", None),
                ("xtask/bin/xtask", None),
                ("shunt-tests/packets", Some("packets")),
            ]
        );
    }

    #[test]
    fn a_list_has_tests_and_no_benchmarks() {
        let list = "a::b: test\nc: bench\nd: test\n\n2 tests, 1 benchmark\n";
        assert_eq!(names(list).collect::<Vec<_>>(), ["a::b", "d"]);
    }
}
