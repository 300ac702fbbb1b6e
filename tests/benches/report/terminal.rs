//! Tables for the terminal.

use shunt_tests::Table;

use super::{
    Facts,
    number::{number, quartiles, ratio},
};
use crate::measure::{Better, Judged, Limit, Results};

/// A study.
pub(super) fn study(results: &Results) -> String {
    let Results {
        study,
        unit,
        better,
        rounds,
        rows,
        bounds,
    } = results;
    let mut table = Table::new(&[
        "subject",
        "figure",
        ">median",
        "quartiles",
        ">ratio",
        "quartiles",
    ]);
    for row in rows {
        let (ratio_median, ratio_quartiles) = row.ratio.map_or_else(Default::default, |spread| {
            (ratio(spread.median), quartiles(spread, ratio))
        });
        table.row([
            row.subject.clone(),
            row.figure.clone(),
            number(row.value.median),
            quartiles(row.value, number),
            ratio_median,
            ratio_quartiles,
        ]);
    }
    let better = match better {
        Better::Lower => "lower",
        Better::Higher => "higher",
    };
    let mut text = format!("\n{study}: {unit}, {better} is better, {rounds} rounds\n{table}");
    for bound in bounds {
        text += &format!("{}\n", judged(bound));
    }
    text
}

/// A table of facts.
pub(super) fn facts(facts: &Facts) -> String {
    let Facts {
        name,
        columns,
        rows,
    } = facts;
    let mut table = Table::new(columns);
    for row in rows {
        table.row(row.clone());
    }
    format!("\n{name}\n{table}")
}

/// All bounds of all studies once more.
pub(super) fn bounds(studies: &[Results]) -> String {
    let lines = studies.iter().flat_map(|results| {
        let line = |bound| format!("{}: {}\n", results.study, judged(bound));
        results.bounds.iter().map(line)
    });
    lines.collect()
}

fn judged(bound: &Judged) -> String {
    let Judged {
        label,
        limit,
        value,
        met,
    } = bound;
    format!(
        "{}: {label}: {} ({}), {}",
        if *met { "met" } else { "NOT MET" },
        ratio(value.median),
        quartiles(*value, ratio),
        self::limit(*limit),
    )
}

/// A limit in words.
pub(super) fn limit(limit: Limit) -> String {
    match limit {
        Limit::AtMost(limit) => format!("at most {}", number(limit)),
        Limit::AtLeast(limit) => format!("at least {}", number(limit)),
    }
}
