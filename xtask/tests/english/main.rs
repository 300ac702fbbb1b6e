//! Plain English, by counts that may only fall: `shares.txt` has, for each crate and each page, the doc comments that
//! begin with a question word, and the words in [`VAGUE`].
//!
//! After the counts have fallen, `SHUNT_RECORD=1 cargo test -p xtask --test english` writes them down.

mod subjects;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

/// Words with which a clause begins. A doc comment begins with a noun, or with a verb.
const QUESTIONS: [&str; 11] = [
    "What", "How", "Whether", "Who", "Whose", "Whom", "Which", "Those", "Where", "When", "Whoever",
];

/// Words for which the field has better ones.
const VAGUE: [&str; 11] = [
    "tell", "tells", "told", "telling", "say", "says", "said", "saying", "nobody", "somebody",
    "whoever",
];

/// The folders with crates, and that of the pages.
const CRATES: [&str; 5] = ["agent", "common", "ebpf", "tests", "xtask"];
const PAGES: &str = "docs";

/// The counts of a crate or of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    /// The doc comments, and those that begin with a question word.
    comments: u32,
    questions: u32,
    /// The words of comments or of the page, and the vague ones.
    words: u32,
    vague: u32,
}

impl Counts {
    /// Returns the doc comments of ten thousand that begin with a question word, rounded up.
    fn questions(self) -> u32 {
        share(self.questions, self.comments)
    }

    /// Returns the vague words of ten thousand, rounded up.
    fn vague(self) -> u32 {
        share(self.vague, self.words)
    }
}

fn share(part: u32, all: u32) -> u32 {
    (part * 10_000).div_ceil(all.max(1))
}

fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap().to_owned()
}

/// Returns the files with one of these extensions below a folder.
fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|other| other == extension) {
            found.push(path);
        }
    }
}

/// Returns the folder of the crate to which a file belongs.
fn crate_of(file: &Path) -> &Path {
    let mut folders = file.ancestors().skip(1);
    folders
        .find(|folder| folder.join("Cargo.toml").is_file())
        .unwrap()
}

/// Counts the comments of a source file.
fn count_comments(text: &str, counts: &mut Counts) {
    let mut is_after_doc = false;
    for line in text.lines() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_after_doc = false;
            continue;
        };
        let doc = comment.strip_prefix(['/', '!']);
        if let Some(doc) = doc
            && !is_after_doc
        {
            counts.comments += 1;
            let first = words(doc).next().unwrap_or_default();
            counts.questions += u32::from(QUESTIONS.contains(&first));
        }
        is_after_doc = doc.is_some();
        count_words(doc.unwrap_or(comment), counts);
    }
}

/// Counts the words of a page, without its code.
fn count_page(text: &str, counts: &mut Counts) {
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            count_words(line, counts);
        }
    }
}

/// Counts the words of a line, without what is in backticks.
fn count_words(line: &str, counts: &mut Counts) {
    for word in line.split('`').step_by(2).flat_map(words) {
        counts.words += 1;
        let word = word.to_lowercase();
        counts.vague += u32::from(VAGUE.contains(&word.as_str()));
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
}

/// Returns the counts of all crates and pages, by their paths.
fn counted() -> BTreeMap<String, Counts> {
    let root = root();
    let name = |path: &Path| path.strip_prefix(&root).unwrap().display().to_string();
    let mut all = BTreeMap::<String, Counts>::new();
    let mut sources = Vec::new();
    for folder in CRATES {
        files(&root.join(folder), "rs", &mut sources);
    }
    for file in sources {
        let counts = all.entry(name(crate_of(&file))).or_default();
        count_comments(&fs::read_to_string(&file).unwrap(), counts);
    }
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    files(&root.join(PAGES), "md", &mut pages);
    for page in pages {
        let counts = all.entry(name(&page)).or_default();
        count_page(&fs::read_to_string(&page).unwrap(), counts);
    }
    all
}

/// Returns the recorded shares: a line each, `path questions vague`, of ten thousand.
fn recorded(text: &str) -> BTreeMap<&str, (u32, u32)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [path, questions, vague] = fields[..] else {
                panic!("not `path questions vague`: {line}");
            };
            let number = |text: &str| text.parse().unwrap();
            (path, (number(questions), number(vague)))
        })
        .collect()
}

#[test]
fn the_shares_of_words_that_have_better_ones_only_fall() {
    let file = root().join("xtask/tests/english/shares.txt");
    let counted = counted();
    if env::var_os("SHUNT_RECORD").is_some() {
        let mut text =
            "# Of ten thousand: doc comments that begin with a question word; vague words.\n"
                .to_owned();
        for (path, counts) in &counted {
            text += &format!("{path} {} {}\n", counts.questions(), counts.vague());
        }
        fs::write(&file, text).unwrap();
    }
    let text = fs::read_to_string(&file).unwrap();
    let recorded = recorded(&text);
    let mut risen = Vec::new();
    for (path, counts) in &counted {
        // A new crate or page begins without.
        let (questions, vague) = recorded.get(path.as_str()).copied().unwrap_or_default();
        if counts.questions() > questions {
            risen.push(format!(
                "{path}: {} of {} doc comments begin with a question word, where {questions} of 10,000 is recorded: \
                 begin with a noun or a verb (\"Returns the backend that serves …\")",
                counts.questions, counts.comments
            ));
        }
        if counts.vague() > vague {
            risen.push(format!(
                "{path}: {} of {} words are tell, say, nobody or the like, where {vague} of 10,000 is recorded: take \
                 the word for what happens (returns, logs, has, shows)",
                counts.vague, counts.words
            ));
        }
    }
    assert!(risen.is_empty(), "{}", risen.join("\n"));
}

#[test]
fn comments_and_words_are_counted() {
    let mut counts = Counts::default();
    count_comments(
        "/// Whether it is so.\n/// What follows does not begin.\nfn f() {} // Somebody.\n// It says `say`.\n//! The rest.\n",
        &mut counts,
    );
    assert_eq!((counts.comments, counts.questions), (2, 1));
    assert_eq!((counts.words, counts.vague), (13, 1));
    let mut page = Counts::default();
    count_page("It says so.\n```\nsay\n```\nTold, `tell`.\n", &mut page);
    assert_eq!((page.words, page.vague), (4, 2));
    assert_eq!((page.vague(), page.questions()), (5000, 0));
}
