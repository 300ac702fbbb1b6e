//! The same tables in Markdown.

use super::{
    Facts,
    machine::Machine,
    number::{number, quartiles, ratio},
    terminal::limit,
};
use crate::measure::{Better, Results, Role};

/// The whole page.
pub(super) fn page(machine: &Machine, studies: &[Results], facts: &[Facts]) -> String {
    let Machine {
        kernel,
        processor,
        processors,
        memory,
        date,
        commit,
    } = machine;
    let gigabytes = memory >> 30;
    let mut text = format!(
        "Linux {kernel}, {processors} processors ({processor}), {gigabytes} GiB; {date}; commit \
         `{commit}`.\n\n## Bounds\n\n"
    );
    text += &row(&["", "what", "is", "quartiles", "has to be"]);
    text += &rule(5);
    for results in studies {
        for bound in &results.bounds {
            text += &row(&[
                if bound.met { "met" } else { "**not met**" },
                &format!("{}: {}", results.study, bound.label),
                &ratio(bound.value.median),
                &quartiles(bound.value, ratio),
                &limit(bound.limit),
            ]);
        }
    }
    for results in studies {
        text += &study(results);
    }
    for facts in facts {
        text += &format!("\n## {}\n\n", facts.name);
        // As in `shunt_tests::Table`, the sign of a column that is aligned to the right.
        let columns = facts.columns.iter();
        let columns: Vec<_> = columns.map(|name| name.trim_start_matches('>')).collect();
        text += &row(&columns);
        text += &rule(facts.columns.len());
        for cells in &facts.rows {
            let cells: Vec<_> = cells.iter().map(String::as_str).collect();
            text += &row(&cells);
        }
    }
    text
}

fn study(results: &Results) -> String {
    let Results {
        study,
        unit,
        better,
        rounds,
        rows,
        bounds: _,
    } = results;
    let better = match better {
        Better::Lower => "lower",
        Better::Higher => "higher",
    };
    let mut text = format!("\n## {study}\n\n{unit}; {better} is better; {rounds} rounds.\n\n");
    text += &row(&["", "", "median", "quartiles", "ratio", "quartiles"]);
    text += &rule(6);
    for result in rows {
        let (ratio_median, ratio_quartiles) =
            result.ratio.map_or_else(Default::default, |spread| {
                (ratio(spread.median), quartiles(spread, ratio))
            });
        let subject = match result.role {
            Role::Baseline => format!("**{}**", result.subject),
            Role::Again => format!("*{}*", result.subject),
            Role::Subject => result.subject.clone(),
        };
        text += &row(&[
            &subject,
            &result.figure,
            &number(result.value.median),
            &quartiles(result.value, number),
            &ratio_median,
            &ratio_quartiles,
        ]);
    }
    text
}

fn row(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn rule(columns: usize) -> String {
    format!("|{}\n", "---|".repeat(columns))
}
