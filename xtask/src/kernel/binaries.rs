//! Programs that run in the machine: the agent and the test binaries, as cargo built them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result};

use super::chosen::{END_TO_END, KUBERNETES, MODEL, PACKETS, SIEGE};
use crate::{process, revision, workspace};

/// Number of cases that a property is tried on there. Whether it holds is tested here, with more of
/// them; an emulated machine would take too long for that.
const PROPERTY_CASES: u32 = 16;

/// Number of packets that the model test compares there, for the same reason.
const MODEL_PACKETS: u32 = 60_000;

/// The programs that the tests run beside the agent.
const HELPERS: [&str; 3] = ["client", "siege", "syscalls"];

/// Paths of the binaries.
pub(super) struct Binaries {
    agent: PathBuf,
    packets: PathBuf,
    model: PathBuf,
    end_to_end: PathBuf,
    kubernetes: PathBuf,
    siege: PathBuf,
    /// The agent of an earlier revision, if this clone has it.
    earlier: Option<PathBuf>,
    /// Programs that the tests run from where cargo put them.
    helpers: [PathBuf; HELPERS.len()],
}

impl Binaries {
    /// Builds them.
    pub(super) fn build() -> Result<Self> {
        let root = workspace::root()?;
        process::run(workspace::cargo(&root).args(["build", "--bin", "shunt"]))?;
        let earlier = revision::agent(&root, revision::UPGRADE_FROM)?;
        let tests = ["packets", "model", "end_to_end", "kubernetes", "siege"];
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
            kubernetes: find(tests[3])?,
            siege: find(tests[4])?,
            earlier,
            helpers: helpers()?,
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
            kubernetes,
            siege,
            earlier,
            helpers,
        } = self;
        for (helper, name) in helpers.iter().zip(HELPERS) {
            copy(helper, &format!("helper-{name}"))?;
        }
        Ok(Self {
            agent: copy(agent, "shunt")?,
            packets: copy(packets, "packets")?,
            model: copy(model, "model")?,
            end_to_end: copy(end_to_end, "end_to_end")?,
            kubernetes: copy(kubernetes, "kubernetes")?,
            siege: copy(siege, "siege")?,
            earlier: earlier
                .as_deref()
                .map(|earlier| copy(earlier, "earlier"))
                .transpose()?,
            helpers: HELPERS.map(|name| folder.join(format!("helper-{name}"))),
        })
    }

    /// The script that runs the tests, one at a time; its exit status is 0 if all pass.
    pub(super) fn job(&self, root: &Path, filters: &[String]) -> Result<String> {
        let Self {
            agent,
            packets,
            model,
            end_to_end,
            kubernetes,
            siege,
            earlier,
            helpers: copies,
        } = self;
        let mut job = format!(
            "export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
             export RUST_BACKTRACE=0 SHUNT_BIN={}\n\
             export PROPTEST_CASES={PROPERTY_CASES} SHUNT_MODEL_PACKETS={MODEL_PACKETS}\n\
             cd {}\nstatus=0\n",
            agent.display(),
            root.join("tests").display(),
        );
        if let Some(earlier) = earlier {
            job.push_str(&format!("export SHUNT_EARLIER_BIN={}\n", earlier.display()));
        }
        for (copy, original) in copies.iter().zip(helpers()?) {
            let (copy, original) = (copy.display(), original.display());
            job.push_str(&format!("mount --bind {copy} {original}\n"));
        }
        let given: Vec<&str> = filters.iter().map(String::as_str).collect();
        for (binary, usual) in [
            (packets, &PACKETS[..]),
            (model, &MODEL),
            (end_to_end, &END_TO_END),
            (kubernetes, &KUBERNETES),
            (siege, &SIEGE),
        ] {
            let filters = if given.is_empty() { usual } else { &given };
            job.push_str(&format!(
                "{} --color=never --show-output --test-threads=1 {} || status=$?\n",
                binary.display(),
                filters.join(" ")
            ));
        }
        job.push_str("exit $status\n");
        Ok(job)
    }
}

/// Returns the paths at which cargo puts the programs that the tests run: they are named by these paths in the tests.
fn helpers() -> Result<[PathBuf; HELPERS.len()]> {
    let folder = workspace::output("debug")?;
    Ok(HELPERS.map(|name| folder.join(name)))
}
