//! What runs in the machine: the agent and the test binaries, as cargo built them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result};

use super::{END_TO_END, MODEL};
use crate::{process, workspace};

/// How many cases a property is tried on there. Whether it holds is tested here, with more of
/// them; an emulated machine would take too long for that.
const PROPERTY_CASES: u32 = 16;

/// How many packets the model test compares there.
const MODEL_PACKETS: u32 = 20_000;

/// Paths of the binaries.
pub(super) struct Binaries {
    agent: PathBuf,
    packets: PathBuf,
    model: PathBuf,
    end_to_end: PathBuf,
}

impl Binaries {
    /// Builds them.
    pub(super) fn build() -> Result<Self> {
        let root = workspace::root()?;
        process::run(workspace::cargo(&root).args(["build", "--bin", "shunt"]))?;
        let tests = ["packets", "model", "end_to_end"];
        let messages = process::output(
            workspace::cargo(&root)
                .args(["test", "--no-run"])
                .args(["--message-format", "json-render-diagnostics"])
                .args(tests.iter().flat_map(|name| ["--test", name]))
                .stderr(Stdio::inherit()),
        )?;
        let find = |name| {
            workspace::executable(&messages, name)
                .with_context(|| format!("cargo built no test {name}"))
        };
        Ok(Self {
            agent: workspace::output("debug")?.join("shunt"),
            packets: find(tests[0])?,
            model: find(tests[1])?,
            end_to_end: find(tests[2])?,
        })
    }

    /// Copies of them in a folder.
    pub(super) fn copy_to(&self, folder: &Path) -> Result<Self> {
        let copy = |from: &Path, name: &str| {
            let to = folder.join(name);
            fs::copy(from, &to)
                .with_context(|| format!("cannot copy {}", from.display()))
                .map(|_| to)
        };
        let Self {
            agent,
            packets,
            model,
            end_to_end,
        } = self;
        Ok(Self {
            agent: copy(agent, "shunt")?,
            packets: copy(packets, "packets")?,
            model: copy(model, "model")?,
            end_to_end: copy(end_to_end, "end_to_end")?,
        })
    }

    /// The script that runs the tests, one at a time; its exit status is 0 if all pass.
    pub(super) fn job(&self, root: &Path, filters: &[String]) -> String {
        let Self {
            agent,
            packets,
            model,
            end_to_end,
        } = self;
        let chosen = |usual: &[&str]| {
            let filters: Vec<_> = if filters.is_empty() {
                usual.to_vec()
            } else {
                filters.iter().map(String::as_str).collect()
            };
            filters.join(" ")
        };
        let mut job = format!(
            "export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
             export RUST_BACKTRACE=0 SHUNT_BIN={} PROPTEST_CASES={PROPERTY_CASES} \
             SHUNT_MODEL_PACKETS={MODEL_PACKETS}\n\
             cd {}\nstatus=0\n",
            agent.display(),
            root.join("tests").display(),
        );
        for (binary, filters) in [
            (model, chosen(&MODEL)),
            (packets, chosen(&[])),
            (end_to_end, chosen(&END_TO_END)),
        ] {
            let binary = binary.display();
            job.push_str(&format!(
                "{binary} --color=never --test-threads=1 {filters} || status=$?\n"
            ));
        }
        job.push_str("exit $status\n");
        job
    }
}
