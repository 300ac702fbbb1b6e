//! What was measured, for people and for programs.

mod chart;
mod docs;
mod facts;
mod machine;
mod markdown;
mod number;
mod terminal;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde::Serialize;

pub(crate) use self::facts::Facts;
use self::machine::Machine;
use crate::measure::Results;

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    machine: Machine,
    quick: bool,
    /// The command line.
    command: Vec<String>,
    studies: Vec<Results>,
    facts: Vec<Facts>,
    #[serde(skip)]
    folder: PathBuf,
}

impl Report {
    /// An empty report, to be written into `folder`.
    ///
    /// # Errors
    ///
    /// If the folder cannot be made.
    pub(crate) fn new(folder: &Path, quick: bool) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self {
            machine: Machine::look(),
            quick,
            command: std::env::args().skip(1).collect(),
            studies: Vec::new(),
            facts: Vec::new(),
            folder: folder.to_owned(),
        })
    }

    /// Adds a study, and prints it.
    pub(crate) fn study(&mut self, results: Results) {
        println!("{}", terminal::study(&results));
        self.studies.push(results);
    }

    /// Adds facts, and prints them.
    pub(crate) fn facts(&mut self, facts: Facts) {
        println!("{}", terminal::facts(&facts));
        self.facts.push(facts);
    }

    /// Writes everything: `results.json`, `results.md` and a chart for each study.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub(crate) fn write(&self) -> Result<()> {
        println!("{}", terminal::bounds(&self.studies));
        let json = serde_json::to_string_pretty(self).context("cannot encode the results")?;
        self.put("results.json", &json)?;
        self.put("results.md", &self.markdown())?;
        for results in &self.studies {
            let name = chart::file_name(&results.study);
            self.put(&name, &chart::svg(results)?)?;
        }
        println!("results: {}", self.folder.display());
        Ok(())
    }

    /// Puts the results between the two marks of the page in the folder `docs`, with the charts
    /// beside it.
    ///
    /// # Errors
    ///
    /// If the page cannot be read or written, or has no marks.
    pub(crate) fn update_docs(&self, docs: &Path) -> Result<()> {
        docs::update(docs, &self.markdown())?;
        for results in &self.studies {
            let name = chart::file_name(&results.study);
            let (from, to) = (self.folder.join(&name), docs.join("bench").join(&name));
            fs::copy(&from, &to).with_context(|| format!("cannot copy to {}", to.display()))?;
        }
        Ok(())
    }

    fn markdown(&self) -> String {
        markdown::page(&self.machine, &self.studies, &self.facts)
    }

    fn put(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}
