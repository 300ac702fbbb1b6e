//! `cargo xtask pictures`: the pictures in the documents, made anew.

use std::process::Command;

use anyhow::Result;

use crate::{process, setup, workspace};

pub(crate) fn main() -> Result<()> {
    workspace::require_root("cargo xtask pictures")?;
    setup::ensure(setup::Needs::Network)?;
    page()
}

/// The agent's page, of the sandbox of `cargo xtask run` with its traffic.
fn page() -> Result<()> {
    let playwright = setup::browser::ensure()?;
    let root = workspace::root()?;
    process::step(
        "build the agent and the sandbox",
        workspace::cargo(&root).args(["build", "--bin", "shunt", "--bin", "sandbox"]),
    )?;
    let built = workspace::output("debug")?;
    process::step(
        "look at the page",
        Command::new(built.join("sandbox"))
            .arg("--agent")
            .arg(built.join("shunt"))
            .arg("--events")
            .arg(root.join("docs/example-events.jsonl"))
            .args(["--connections", "30", "--bulk", "0", "--keep", "--ui=0"])
            .arg("--visitor")
            .arg(root.join("tests/page/pictures.mjs"))
            .env("SHUNT_PLAYWRIGHT", playwright)
            .env("SHUNT_PICTURES", root.join("docs/pictures")),
    )
}
