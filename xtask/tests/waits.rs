//! The minutes that documents and commands promise: they are those of docs/bench.md.

use std::{fs, path::Path};

fn read(path: &str) -> String {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::read_to_string(workspace.join(path)).unwrap()
}

/// Returns the minutes in the row of docs/bench.md that begins with `what`: `| what | 7 min | …`.
fn minutes(what: &str) -> u32 {
    let bench = read("docs/bench.md");
    let row = bench
        .lines()
        .find_map(|line| line.strip_prefix(&format!("| {what} | ")))
        .unwrap_or_else(|| panic!("docs/bench.md has no row {what}"));
    let (minutes, _) = row.split_once(" min").unwrap();
    minutes.parse().unwrap()
}

#[test]
fn the_first_build_takes_as_long_as_everywhere_promised() {
    let minutes = minutes("`cargo xtask run` in a fresh clone");
    for (path, text) in [
        (
            "README.md",
            format!("about {minutes} minutes on two processors"),
        ),
        (
            "xtask/src/build.rs",
            format!("FIRST_MINUTES: u32 = {minutes};"),
        ),
    ] {
        assert!(read(path).contains(&text), "{path} does not say: {text}");
    }
}

#[test]
fn the_commands_of_a_contributor_take_as_long_as_promised() {
    let contributing = read("CONTRIBUTING.md");
    for (what, command) in [
        ("then `cargo xtask test`", "| `cargo xtask test` |"),
        ("`.ci/run`, nothing kept", "| `.ci/run` |"),
    ] {
        let minutes = minutes(what);
        let row = contributing
            .lines()
            .find(|line| line.starts_with(command))
            .unwrap();
        let text = format!("{minutes} minutes");
        assert!(row.contains(&text), "{row} does not say: {text}");
    }
}
