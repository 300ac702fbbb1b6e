//! The page of the documentation that shows the last results.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

/// The page, in the folder of the documentation.
const PAGE: &str = "bench/results.md";

/// Between these, the page is the results'.
const BEGIN: &str = "<!-- results: begin, written by `cargo xtask bench --update-docs` -->";
const END: &str = "<!-- results: end -->";

/// Replaces what is between the marks, and makes the folder for the charts.
pub(super) fn update(docs: &Path, results: &str) -> Result<()> {
    let path = docs.join(PAGE);
    let page =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let page = replaced(&page, results)
        .with_context(|| format!("{} has no marks to put results between", path.display()))?;
    fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    let charts = docs.join("bench");
    fs::create_dir_all(&charts).with_context(|| format!("cannot make {}", charts.display()))
}

fn replaced(page: &str, results: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{results}\n{END}{after}"))
}
