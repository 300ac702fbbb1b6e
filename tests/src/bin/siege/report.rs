//! Report of a siege.

use std::{collections::BTreeMap, fmt, time::Duration};

use shunt_tests::{Table, duration_text};

use crate::{disturbance::Happened, flood::Flooded, honest::Ledger};

/// Number of failures that are shown one by one.
const SHOWN: usize = 20;

/// Report of a siege.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) name: &'static str,
    /// Duration of the floods.
    pub(crate) time: Duration,
    pub(crate) ledgers: Vec<Ledger>,
    pub(crate) floods: Vec<Flooded>,
    pub(crate) happened: Happened,
    /// Counts of packets dropped and connections given up.
    pub(crate) counted: BTreeMap<String, u64>,
    /// Use of the processors.
    pub(crate) processors: String,
}

impl Report {
    /// Returns the number of honest clients' operations that failed.
    pub(crate) fn failures(&self) -> usize {
        let failed = self.ledgers.iter().map(|ledger| ledger.failures().len());
        failed.sum()
    }

    /// Returns the number of operations that went well.
    fn served(&self) -> u64 {
        self.ledgers.iter().map(Ledger::count).sum()
    }

    /// Failures here and there, and their shares.
    pub(crate) fn compared(&self, other: &Self) -> String {
        let of = |report: &Self| {
            let (failed, served) = (report.failures() as f64, report.served() as f64);
            format!(
                "{}: {failed} of {} not served ({:.3} %)",
                report.name,
                failed + served,
                100.0 * failed / (failed + served).max(1.0)
            )
        };
        format!("{}; {}", of(self), of(other))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            time,
            ledgers,
            floods,
            happened,
            counted,
            processors,
        } = self;
        writeln!(f, "{name}, besieged for {}\n", duration_text(*time))?;
        writeln!(f, "{}", of_clients(ledgers))?;
        writeln!(f, "{}", of_floods(floods))?;
        let Happened {
            deaths,
            changes,
            interfaces,
        } = happened;
        writeln!(
            f,
            "agents killed: {deaths}, changes of services: {changes}, interfaces added: {interfaces}"
        )?;
        for (name, value) in counted {
            writeln!(f, "counted: {value} {name}")?;
        }
        writeln!(f, "{processors}")?;
        self.write_failures(f)
    }
}

impl Report {
    fn write_failures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut failures: Vec<_> = self
            .ledgers
            .iter()
            .flat_map(|ledger| ledger.failures().iter().map(|it| (ledger.name(), it)))
            .collect();
        if failures.is_empty() {
            return writeln!(f, "\nevery honest client was served");
        }
        failures.sort_by_key(|(_, failed)| failed.at);
        writeln!(
            f,
            "\n{} operations of honest clients FAILED:\n",
            failures.len()
        )?;
        let mut table = Table::new(&[">at", ">took", "client", "reason"]);
        for (client, failed) in failures.iter().take(SHOWN) {
            table.row([
                format!("{:.1} s", failed.at.as_secs_f64()),
                duration_text(failed.took),
                (*client).to_owned(),
                failed.reason.clone(),
            ]);
        }
        writeln!(f, "{table}")?;
        let mut kinds: BTreeMap<_, u64> = BTreeMap::new();
        for (client, failed) in &failures {
            *kinds.entry((*client, &failed.reason)).or_default() += 1;
        }
        let mut table = Table::new(&[">n", "client", "reason"]);
        for ((client, reason), count) in kinds {
            table.row([count.to_string(), client.to_owned(), reason.clone()]);
        }
        writeln!(f, "{table}")
    }
}

fn of_clients(ledgers: &[Ledger]) -> Table {
    let mut table = Table::new(&[
        "honest clients",
        ">served",
        ">not",
        ">sent again",
        ">p50",
        ">p99",
        ">p99.9",
        ">longest",
    ]);
    for ledger in ledgers {
        let mut row = vec![
            ledger.name().to_owned(),
            ledger.count().to_string(),
            ledger.failures().len().to_string(),
            ledger.repeats().to_string(),
        ];
        row.extend(ledger.quantiles([0.5, 0.99, 0.999, 1.0]).map(duration_text));
        table.row(row);
    }
    table
}

fn of_floods(floods: &[Flooded]) -> Table {
    let mut table = Table::new(&["flood", ">aim/s", ">reached/s", ">refused"]);
    let mut all = 0.0;
    for Flooded {
        name,
        aim,
        sent,
        refused,
        time,
    } in floods
    {
        let reached = *sent as f64 / time.as_secs_f64().max(0.001);
        all += reached;
        table.row([
            (*name).to_owned(),
            aim.to_string(),
            format!("{reached:.0}"),
            refused.to_string(),
        ]);
    }
    table.row([
        "all".to_owned(),
        floods
            .iter()
            .map(|flood| flood.aim)
            .sum::<u32>()
            .to_string(),
        format!("{all:.0}"),
        floods
            .iter()
            .map(|flood| flood.refused)
            .sum::<u64>()
            .to_string(),
    ]);
    table
}
