//! The results, for people and for programs.

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

    /// Writes everything: `results.json` and `results.md`.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub(crate) fn write(&self) -> Result<()> {
        println!("{}", terminal::bounds(&self.studies));
        let json = serde_json::to_string_pretty(self).context("cannot encode the results")?;
        self.put("results.json", &json)?;
        let page = markdown::page(&self.machine, &self.studies, &self.facts);
        self.put("results.md", &page)?;
        println!("results: {}", self.folder.display());
        Ok(())
    }

    fn put(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}
