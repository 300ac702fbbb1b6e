//! The documents and the code name files, pages and headings: they must be there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The folders that hold what documents name.
const FOLDERS: [&str; 7] = [
    "agent/", "common/", "deploy/", "docs/", "ebpf/", "tests/", "xtask/",
];

/// The pages beside the folder `docs`.
const BESIDE: [&str; 3] = ["CHANGELOG.md", "CONTRIBUTING.md", "README.md"];

/// The folders whose texts people read: as help, log, error or comment.
const CODE: [&str; 7] = ["agent", "common", "deploy", "ebpf", "tests", "xtask", ".ci"];

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Returns all files below these, with their paths from the workspace.
fn files(below: &[&str]) -> Vec<PathBuf> {
    let mut waiting: Vec<PathBuf> = below.iter().map(PathBuf::from).collect();
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        let whole = workspace().join(&path);
        if whole.is_dir() {
            let entries = fs::read_dir(whole).unwrap();
            waiting.extend(entries.map(|entry| path.join(entry.unwrap().file_name())));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// Returns the documents, with their paths from the workspace.
fn documents() -> Vec<(PathBuf, String)> {
    let pages = files(&["docs"]).into_iter();
    let pages = pages.filter(|path| is_page(path));
    let all = pages.chain(BESIDE.map(PathBuf::from));
    all.map(|path| {
        let text = fs::read_to_string(workspace().join(&path)).unwrap();
        (path, text)
    })
    .collect()
}

/// The paths from the workspace that a text names.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    words(text).filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)))
}

/// Returns the words of a text that may be paths.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    text.split(move |c| !part(c))
        .map(|word| word.trim_end_matches(['.', '/', '-']))
}

/// Returns the pages that a text names, each with the heading behind `#`, which may be empty.
fn pages(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_part =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '#' | ':');
    text.split(move |c| !is_part(c))
        .map(|word| word.trim_matches(['.', ':']))
        // Another project's page.
        .filter(|word| !word.contains(':'))
        .map(|word| word.split_once('#').unwrap_or((word, "")))
        .filter(|(path, _)| is_page(Path::new(path)))
        .filter(|(path, _)| path.starts_with("docs/") || BESIDE.contains(path))
}

/// Returns the targets of links and pictures of a text.
fn links(text: &str) -> Vec<String> {
    let events = Parser::new_ext(text, Options::ENABLE_TABLES);
    events
        .filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some(dest_url.into_string())
            }
            _ => None,
        })
        .collect()
}

/// Returns the anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor(&heading.take().unwrap());
                let before = times.entry(anchor.clone()).or_default();
                found.insert(match *before {
                    0 => anchor,
                    number => format!("{anchor}-{number}"),
                });
                *before += 1;
            }
            _ => {}
        }
    }
    found
}

fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase();
    let kept = lower
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns a path without `..`, from the folder that it is meant in.
fn resolved(folder: &Path, target: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{target} leads out of the workspace"),
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path
}

/// Returns whether the file is there, and has the heading if one is named.
fn is_there(path: &Path, heading: &str) -> bool {
    let whole = workspace().join(path);
    if heading.is_empty() {
        return whole.exists();
    }
    fs::read_to_string(whole).is_ok_and(|text| anchors(&text).contains(heading))
}

#[test]
fn every_file_that_a_document_names_is_there() {
    let mut missing = BTreeSet::new();
    for (document, text) in documents() {
        for path in paths(&text) {
            if !workspace().join(path).exists() {
                missing.insert(format!("{}: {path}", document.display()));
            }
        }
    }
    assert!(missing.is_empty(), "named, but not there: {missing:#?}");
}

#[test]
fn every_link_of_a_document_leads_to_a_file_and_a_heading() {
    let mut broken = BTreeSet::new();
    let mut linked = BTreeSet::new();
    for (document, text) in documents() {
        let folder = document.parent().unwrap();
        for link in links(&text) {
            if link.contains("://") {
                continue;
            }
            let (target, heading) = link.split_once('#').unwrap_or((&link, ""));
            let path = if target.is_empty() {
                document.clone()
            } else {
                resolved(folder, target)
            };
            if !is_there(&path, heading) {
                broken.insert(format!("{}: {link}", document.display()));
            }
            if path != document {
                linked.insert(path);
            }
        }
    }
    assert!(broken.is_empty(), "links to nothing: {broken:#?}");
    let pages = documents().into_iter().map(|(path, _)| path);
    let lonely: Vec<_> = pages
        .filter(|page| page.starts_with("docs") && !linked.contains(page))
        .collect();
    assert!(lonely.is_empty(), "no page links to these: {lonely:?}");
}

#[test]
fn every_page_that_help_log_and_code_name_is_there() {
    let this = Path::new("xtask/tests/docs.rs");
    let mut missing = BTreeSet::new();
    let mut count = 0;
    for file in files(&CODE) {
        let Ok(text) = fs::read_to_string(workspace().join(&file)) else {
            // A picture.
            continue;
        };
        for (path, heading) in pages(&text).filter(|_| file != this) {
            count += 1;
            if !is_there(Path::new(path), heading) {
                missing.insert(format!("{}: {path}#{heading}", file.display()));
            }
        }
    }
    assert!(count > 30, "{count} pages alone are named");
    assert!(missing.is_empty(), "named, but not there: {missing:#?}");
}

#[test]
fn the_index_links_every_page() {
    let index = Path::new("docs/README.md");
    let text = fs::read_to_string(workspace().join(index)).unwrap();
    let links = links(&text);
    let linked: BTreeSet<PathBuf> = links
        .iter()
        .filter(|link| !link.contains("://"))
        .map(|link| link.split_once('#').map_or(&**link, |(page, _)| page))
        .map(|page| resolved(Path::new("docs"), page))
        .collect();
    let pages = documents().into_iter().map(|(path, _)| path);
    let missing: Vec<_> = pages
        .filter(|page| page != index && !linked.contains(page))
        .collect();
    assert!(missing.is_empty(), "docs/README.md lacks {missing:?}");
}

/// Returns the names behind a mark at the beginning of lines.
fn marked<'a>(text: &'a str, mark: &str) -> BTreeSet<&'a str> {
    let lines = text.lines().map(str::trim_start);
    lines.filter_map(|line| line.strip_prefix(mark)).collect()
}

#[test]
fn every_alert_has_a_section_and_every_section_an_alert() {
    let read = |path| fs::read_to_string(workspace().join(path)).unwrap();
    let (rules, page) = (read("deploy/alerts.yaml"), read("docs/alerts.md"));
    let alerts = marked(&rules, "- alert: ");
    assert!(alerts.len() > 10, "{} alerts alone", alerts.len());
    assert_eq!(alerts, marked(&page, "## "));
}

#[test]
fn paths_are_found_in_text() {
    let found: Vec<_> =
        paths("see `agent/src/main.rs`, [x](docs/a.md#b) and ebpf/src. Not /agent/x").collect();
    assert_eq!(found, ["agent/src/main.rs", "docs/a.md", "ebpf/src"]);
    let found: Vec<_> = pages(
        "help: docs/a.md#b-c, docs/x.rs. README.md; https://example/docs/b.md, see docs/c.md.",
    )
    .collect();
    assert_eq!(
        found,
        [("docs/a.md", "b-c"), ("README.md", ""), ("docs/c.md", "")]
    );
}

#[test]
fn links_and_headings_are_found_in_a_page() {
    let page = "# A `--flag`, and more\n\n## Twice\n\n[a](b.md#c), `[no](x)`\n\n## Twice\n\n\
                ```\n# comment\n[no](y)\n```\n\n| a |\n|---|\n| ![p](q.png) |\n";
    assert_eq!(links(page), ["b.md#c", "q.png"]);
    let expected = ["a---flag-and-more", "twice", "twice-1"];
    assert_eq!(anchors(page), expected.map(str::to_owned).into());
}
