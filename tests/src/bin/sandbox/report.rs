//! The results, for a person.

use std::fmt;

use shunt_tests::{ForeignSources, Table, Tally, bytes_text};

use crate::model::{Client, Frontend};

/// A backend may be missing among the answers when that would happen by chance more often than
/// once in so many runs.
const CHANCE: f64 = 1e9;

/// The stage in which the traffic ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// While nothing changed.
    Steady,
    /// While backends and services changed.
    Changes,
}

/// One client's connections to one frontend.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) stage: Stage,
    pub(crate) client: Client,
    pub(crate) frontend: Frontend,
    pub(crate) tally: Tally,
}

/// All connections, and all that was wrong with them.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    problems: Vec<String>,
}

impl Report {
    /// Notes something that must not happen.
    pub(crate) fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Adds connections to the tables, and checks them.
    pub(crate) fn add(&mut self, row: Row) {
        self.check(row.client, &row.frontend, &row.tally);
        self.rows.push(row);
    }

    /// Every connection must have been answered, by a backend that saw whom it should see.
    pub(crate) fn check(&mut self, client: Client, frontend: &Frontend, tally: &Tally) {
        for (failure, times) in &tally.failures {
            self.problem(format!("{client} to {frontend}: {failure}, {times} times"));
        }
        let expected = match client {
            Client::Pod | Client::Node => ForeignSources::new(),
            Client::Outside => tally.sources_from_outside(),
        };
        if tally.foreign_sources != expected {
            let found = &tally.foreign_sources;
            self.problem(format!(
                "{client} to {frontend}: the backends must see {expected:?} in place of the \
                 client's address, but it is {found:?}"
            ));
        }
        if tally.answered() + tally.failed() == 0 {
            self.problem(format!("{client} to {frontend}: no connection was tried"));
        }
    }

    /// The answers must be from the frontend's backends, and from all of them unless there were
    /// too few connections for that.
    pub(crate) fn check_shares(&mut self, frontend: &Frontend, tally: &Tally) {
        for backend in tally.backends() {
            if !frontend.weights.contains_key(&backend) {
                self.problem(format!(
                    "{backend} answered at {frontend}, but is no backend of it"
                ));
            }
        }
        let sum: u64 = frontend.weights.values().sum();
        let connections = i32::try_from(tally.answered()).unwrap_or(i32::MAX);
        for (backend, &weight) in &frontend.weights {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a probability need not be exact"
            )]
            let others = 1.0 - weight as f64 / sum as f64;
            if tally.of(*backend) == 0 && others.powi(connections) * CHANCE < 1.0 {
                self.problem(format!("{backend} never answered at {frontend}"));
            }
        }
    }

    fn table(&self, stage: Stage) -> Table {
        let mut table = Table::new(&[
            "service",
            "kind",
            "frontend",
            "from",
            "backend",
            ">connections",
            ">share",
            ">bytes",
            ">errors",
        ]);
        for row in self.rows.iter().filter(|row| row.stage == stage) {
            for cells in row.cells() {
                table.row(cells);
            }
        }
        table
    }
}

impl Row {
    /// A line for each backend; what they have in common stands on the first one only.
    fn cells(&self) -> Vec<Vec<String>> {
        let Self {
            stage: _,
            client,
            frontend,
            tally,
        } = self;
        let Frontend {
            address,
            transport,
            kind,
            service,
            weights: _,
        } = frontend;
        let common = [
            service.to_string(),
            kind.to_string(),
            format!("{address}/{transport}"),
            client.to_string(),
        ];
        let errors = tally.failed().to_string();
        if tally.shares.is_empty() {
            let none = ["none", "0", "", "0 B"].map(str::to_owned);
            return vec![common.into_iter().chain(none).chain([errors]).collect()];
        }
        let all = tally.answered().max(1);
        let lines = tally
            .shares
            .iter()
            .enumerate()
            .map(|(line, (backend, share))| {
                let mut cells = if line == 0 {
                    common.to_vec()
                } else {
                    vec![String::new(); 4]
                };
                cells.push(format!("{} {backend}", share.name));
                cells.push(share.connections.to_string());
                cells.push(format!("{} %", (share.connections * 100 + all / 2) / all));
                cells.push(bytes_text(share.bytes));
                cells.extend((line == 0).then(|| errors.clone()));
                cells
            });
        lines.collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "While nothing changed:\n\n{}", self.table(Stage::Steady))?;
        writeln!(
            f,
            "While backends and services changed:\n\n{}",
            self.table(Stage::Changes)
        )?;
        let sum = |count: fn(&Tally) -> u64| self.rows.iter().map(|row| count(&row.tally)).sum();
        let (answered, failed): (u64, u64) = (sum(Tally::answered), sum(Tally::failed));
        writeln!(f, "Connections: {answered} answered, {failed} errors.")
    }
}
