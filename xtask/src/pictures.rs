//! `cargo xtask pictures`: the pictures in the documents, made anew from real agents with real traffic.

use std::{path::Path, process::Command};

use anyhow::Result;

use crate::{build, process, setup, workspace};

/// Folder to which they are written.
const FOLDER: &str = "docs/pictures";

/// The tests that write some of them have names that begin so.
const TESTS: &str = "pictures_of_";

pub(crate) fn main() -> Result<()> {
    workspace::require_root("cargo xtask pictures")?;
    setup::ensure(setup::Needs::Network)?;
    let playwright = setup::browser::ensure()?;
    let root = workspace::root()?;
    let built = build::quick(&root)?;
    page(&root, &built, &playwright)?;
    process::step(
        "make the pictures that tests show",
        workspace::cargo(&root)
            .args(["test", "--test", "end_to_end", "--", TESTS])
            .env("SHUNT_PICTURES", root.join(FOLDER)),
    )
}

/// The agent's page, of the sandbox of `cargo xtask run` with its traffic.
fn page(root: &Path, built: &Path, playwright: &Path) -> Result<()> {
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
            .env("SHUNT_PICTURES", root.join(FOLDER)),
    )
}
