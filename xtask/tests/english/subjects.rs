//! The subjects of commits: `area: verb what`.

use std::process::Command;

use super::root;

/// The last commit before subjects were held.
const BEFORE: &str = "8e086013c7084e66e84f223c8b1427f6310de891";

/// The longest subject, in columns.
const COLUMNS: usize = 72;

/// Returns what is wrong with a subject.
fn fault(subject: &str) -> Option<&'static str> {
    let Some((area, text)) = subject.split_once(": ") else {
        return Some("no `area: ` before it");
    };
    let is_area = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-/., ".contains(c);
    let verb = text.split(' ').next().unwrap_or_default();
    let is_verb = verb.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    if subject.chars().count() > COLUMNS {
        Some("longer than 72 columns")
    } else if area.is_empty() || !area.chars().all(is_area) {
        Some("an area in lower case comes first")
    } else if verb.is_empty() || !is_verb || ["a", "an", "the"].contains(&verb) {
        Some("a verb comes after the area")
    } else if subject.ends_with('.') {
        Some("a full stop at the end")
    } else {
        None
    }
}

#[test]
fn subjects_of_commits_have_an_area_and_a_verb() {
    let range = format!("{BEFORE}..HEAD");
    let log = Command::new("git")
        .arg("-C")
        .arg(root())
        .args(["log", "--no-merges", "--format=%s", &range])
        .output();
    // A shallow clone, or an unpacked archive, has no history.
    let Some(log) = log.ok().filter(|log| log.status.success()) else {
        return;
    };
    let subjects = String::from_utf8(log.stdout).unwrap();
    let faults: Vec<String> = subjects
        .lines()
        .filter_map(|subject| Some(format!("{subject}: {}", fault(subject)?)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_subject_is_judged() {
    assert_eq!(fault("ebpf: find a hop again at each packet"), None);
    assert_eq!(fault("docs/dsr: name the limit"), None);
    for wrong in [
        "find a hop again",
        "ebpf: a hop is found again where it is taken",
        "Ebpf: find a hop",
        "ebpf: Find a hop",
        "ebpf: find a hop.",
        "ebpf: find a hop again at each packet, and then another one, and one more",
    ] {
        assert!(fault(wrong).is_some(), "{wrong}");
    }
}
