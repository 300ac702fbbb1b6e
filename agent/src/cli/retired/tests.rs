use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Arg, Command};

use super::*;
use crate::cli::{config::agent_file::AgentFile, dispatch::command};

/// Flags for tests and narrow cases alone. The agent accepts them; neither help nor documents name them.
const HIDDEN: [&str; 4] = [
    "conntrack-scan-interval",
    "conntrack-tcp-timeout-closed",
    "conntrack-tcp-timeout-time-wait",
    "dsr-lower-mss",
];

fn agent() -> Command {
    let mut whole = command();
    whole.build();
    whole.find_subcommand("agent").cloned().unwrap()
}

fn line(words: &[&str]) -> Vec<OsString> {
    let words = ["shunt", "agent", "--events", "-"].iter().chain(words);
    words.map(OsString::from).collect()
}

fn find_flag<'a>(agent: &'a Command, flag: &str) -> Option<&'a Arg> {
    let mut arguments = agent.get_arguments();
    arguments.find(|argument| argument.get_long() == Some(flag))
}

#[test]
fn each_is_refused_by_name_on_the_command_line_and_in_a_file() {
    let agent = agent();
    for retired in RETIRED {
        let Retired {
            flag,
            value,
            instead,
        } = retired;
        let value = value.unwrap_or("1m");
        let dashed = format!("--{flag}");
        let lines = [
            line(&[&dashed, value, "--redirect"]),
            line(&[&format!("{dashed}={value}")]),
        ];
        for line in lines {
            let error = refuse(&line).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{dashed}: ")) && error.contains(instead),
                "{line:?}: {error}"
            );
        }

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.toml");
        for text in [
            format!("redirect = true\n{flag} = \"{value}\"\n"),
            format!("redirect = true\n{flag} = [\"{value}\"]\n"),
        ] {
            fs::write(&path, &text).unwrap();
            let error = AgentFile::read(&path, &agent).unwrap_err().to_string();
            assert!(
                error.contains(&format!("line 2: {flag}: ")) && error.contains(instead),
                "{text}: {error}"
            );
        }
    }
}

#[test]
fn none_of_them_is_there_any_more() {
    let agent = agent();
    for Retired { flag, value, .. } in RETIRED {
        let found = find_flag(&agent, flag);
        match value {
            None => assert!(found.is_none(), "--{flag} is still there"),
            Some(value) => {
                let values = found.unwrap().get_possible_values();
                let is_there = values.iter().any(|one| one.matches(value, false));
                assert!(!is_there, "--{flag} {value} is still there");
            }
        }
    }
}

#[test]
fn other_values_and_other_commands_pass() {
    const TABLE: &[Retired] = &[
        Retired {
            flag: "colour",
            value: Some("green"),
            instead: "use `red`",
        },
        flag("size", "remove it"),
    ];
    let found = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        gone(TABLE, &words).map(ToString::to_string)
    };
    let green = Some("the value `green` is gone: use `red`".to_owned());
    let size = Some("this flag is gone: remove it".to_owned());
    for (words, expected) in [
        (&["shunt", "agent", "--colour", "green"][..], &green),
        (&["shunt", "agent", "--colour=green"], &green),
        (
            &["shunt", "agent", "--colour=red", "--colour=green"],
            &green,
        ),
        (&["shunt", "agent", "--size"], &size),
        (&["shunt", "agent", "--size=1"], &size),
        (&["shunt", "agent", "--size", "--colour"], &size),
        (&["shunt", "agent", "--colour", "red"], &None),
        (&["shunt", "agent", "--colours=green"], &None),
        (&["shunt", "agent", "--sizes"], &None),
        (&["shunt", "agent", "size"], &None),
        (&["shunt", "agent"], &None),
        (&["shunt", "status", "--size"], &None),
        (&["shunt"], &None),
        (&[], &None),
    ] {
        assert_eq!(found(words), *expected, "{words:?}");
    }
}

/// Returns the texts that an operator copies from: documents, manifests and units.
fn documents() -> Vec<(PathBuf, String)> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut waiting: Vec<_> = ["README.md", "CONTRIBUTING.md", "docs", "deploy"]
        .map(|name| workspace.join(name))
        .into();
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            waiting.extend(entries.map(|entry| entry.unwrap().path()));
        } else if let Ok(text) = fs::read_to_string(&path) {
            // Pictures are no text.
            found.push((path, text));
        }
    }
    assert!(found.len() > 50, "{} documents alone", found.len());
    found
}

/// Returns whether a text has these words, which are not a part of longer ones.
fn names(text: &str, words: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    text.match_indices(words).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + words.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Returns the spellings of a flag, with this value if there is one.
fn written(flag: &str, value: Option<&str>) -> Vec<String> {
    match value {
        None => vec![format!("--{flag}"), format!("{flag} =")],
        Some(value) => vec![
            format!("--{flag} {value}"),
            format!("--{flag}={value}"),
            format!("{flag} = \"{value}\""),
        ],
    }
}

#[test]
fn no_document_or_manifest_names_them() {
    let retired = RETIRED.iter().map(|one| written(one.flag, one.value));
    let hidden = HIDDEN.iter().map(|flag| written(flag, None));
    let words: Vec<_> = retired.chain(hidden).flatten().collect();
    for (path, text) in documents() {
        for words in &words {
            assert!(!names(&text, words), "{}: {words}", path.display());
        }
    }
}

#[test]
fn the_changelog_has_a_row_for_each() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../CHANGELOG.md");
    let text = fs::read_to_string(path).unwrap();
    for Retired { flag, value, .. } in RETIRED {
        let mut rows = text.lines().filter(|line| line.starts_with("| "));
        let words = value.map_or_else(|| format!("--{flag}"), |value| format!("--{flag} {value}"));
        assert!(rows.any(|row| names(row, &words)), "{words} has no row");
    }
}

#[test]
fn hidden_flags_are_there_and_not_in_the_help() {
    let agent = agent();
    for flag in HIDDEN {
        let found = find_flag(&agent, flag);
        assert!(found.is_some_and(Arg::is_hide_set), "--{flag}");
    }
}

#[test]
fn words_are_found_whole() {
    for (text, words, is_there) in [
        ("give `--size 3`", "--size", true),
        ("give --sizes", "--size", false),
        ("size = 3", "size =", true),
        ("max-size = 3", "size =", false),
        ("--colour green.", "--colour green", true),
        ("--colour greenish", "--colour green", false),
    ] {
        assert_eq!(names(text, words), is_there, "{text}");
    }
}
