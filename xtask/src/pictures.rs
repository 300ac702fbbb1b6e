//! `cargo xtask pictures`: the pictures in the documents, made anew.

use anyhow::Result;

use crate::{process, setup, workspace};

/// Where they are written, by the tests whose name begins so.
const FOLDER: &str = "docs/pictures";
const TESTS: &str = "pictures_of_";

/// Has the tests that look at what pictures show write them, from real agents with real traffic.
pub(crate) fn main() -> Result<()> {
    workspace::require_root("cargo xtask pictures")?;
    setup::ensure(setup::Needs::Network)?;
    let root = workspace::root()?;
    process::step(
        "build the agent",
        workspace::cargo(&root).args(["build", "--package", "shunt", "--bin", "shunt"]),
    )?;
    process::step(
        "make the pictures",
        workspace::cargo(&root)
            .args(["test", "--package", "shunt-tests", "--test", "end_to_end"])
            .args(["--", TESTS])
            .env("SHUNT_PICTURES", root.join(FOLDER)),
    )
}
