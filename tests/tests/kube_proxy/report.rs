//! The report on the rows that agree, and those that do not.

use std::{collections::BTreeMap, fmt};

use crate::cases::{Case, Flow};

/// A tally of rows.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: u32,
    agree: u32,
    on_purpose: BTreeMap<&'static str, u32>,
    wrong: Vec<String>,
}

impl Report {
    /// A row that agrees, or does not with this reason.
    pub(crate) fn add(
        &mut self,
        case: &Case,
        flow: &Flow,
        agrees: bool,
        reason: Option<&'static str>,
        found: &dyn fmt::Debug,
    ) {
        self.rows += 1;
        if agrees {
            self.agree += 1;
        } else if let Some(reason) = reason {
            *self.on_purpose.entry(reason).or_default() += 1;
        } else {
            let Case {
                test,
                step,
                backend,
                ..
            } = case;
            let Flow {
                name,
                source,
                destination,
                port,
                endpoints,
                verdict,
                is_masqueraded,
                ..
            } = flow;
            self.wrong.push(format!(
                "{backend} {test}, {step}: {name} ({source} to {destination}:{port}): {found:?}, \
                 not {verdict} {endpoints:?}, masqueraded: {is_masqueraded}"
            ));
        }
    }

    /// Prints it, and fails if a row is wrong, or if there were none.
    #[track_caller]
    pub(crate) fn end(self, what: &str) {
        let Self {
            rows,
            agree,
            on_purpose,
            wrong,
        } = self;
        println!("{what}: {agree} of {rows} rows agree; others on purpose: {on_purpose:#?}");
        assert!(rows > 0);
        assert!(
            wrong.is_empty(),
            "{} rows:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
    }
}
