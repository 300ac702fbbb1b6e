//! The verdict on a run of the bench, from its `results.json`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::known::{Holds, Miss};

/// Part of a limit by which a listed bound has to be met before it leaves the list.
const MARGIN: f64 = 0.1;

/// Part of a listed figure by which a bound may be missed further.
const WORSE: f64 = 0.25;

/// The limit of a bound.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }

    /// Returns the limit that is `part` of it stricter; looser if that is negative.
    fn stricter(self, part: f64) -> Self {
        match self {
            Self::AtMost(limit) => Self::AtMost(limit * (1.0 - part)),
            Self::AtLeast(limit) => Self::AtLeast(limit * (1.0 + part)),
        }
    }

    /// Returns the same kind of limit for a figure that misses it.
    fn of(self, figure: f64) -> Self {
        match self {
            Self::AtMost(_) => Self::AtMost(figure),
            Self::AtLeast(_) => Self::AtLeast(figure),
        }
    }
}

/// A bound, and what was measured.
#[derive(Debug)]
struct Measured {
    study: String,
    label: String,
    limit: Limit,
    lower: f64,
    median: f64,
    upper: f64,
}

impl Measured {
    /// Returns the quartile that is further from what is wanted.
    fn worse_quartile(&self) -> f64 {
        match self.limit {
            Limit::AtMost(_) => self.upper,
            Limit::AtLeast(_) => self.lower,
        }
    }

    /// Returns the fault of this bound, if there is one.
    fn fault(&self, misses: &[Miss]) -> Option<String> {
        let Self {
            study,
            label,
            limit,
            lower: _,
            median,
            upper: _,
        } = self;
        let is_it = |miss: &&Miss| miss.study == study && miss.label == label;
        let Some(miss) = misses.iter().find(is_it) else {
            let is_missed = !limit.is_met(*median);
            return is_missed.then(|| format!("{study}: {label}: {median:.3} misses {limit:?}"));
        };
        let Miss {
            figure,
            holds,
            reason,
            ..
        } = miss;
        if !limit.of(*figure).stricter(-WORSE).is_met(*median) {
            return Some(format!(
                "{study}: {label}: {median:.3} misses {limit:?} by more than the listed {figure} \
                 ({reason})"
            ));
        }
        let is_clear = limit.stricter(MARGIN).is_met(self.worse_quartile());
        (is_clear && *holds == Holds::Everywhere).then(|| {
            format!("{study}: {label}: {median:.3} meets {limit:?}, and is a known miss ({reason})")
        })
    }
}

/// Returns a line for each fault in a report: a bound that is missed and on no list, a listed one that is met by a
/// margin, and those of `expected` studies, with the number of their bounds, that did not run.
///
/// # Errors
///
/// If the report has another form.
pub(super) fn faults<'e>(
    report: &str,
    misses: &[Miss],
    expected: impl Iterator<Item = (&'e str, usize)>,
) -> Result<Vec<String>> {
    let measured = parse(report)?;
    let mut faults: Vec<_> = measured
        .iter()
        .filter_map(|one| one.fault(misses))
        .collect();
    let mut ran = BTreeMap::<&str, usize>::new();
    for one in &measured {
        *ran.entry(&one.study).or_default() += 1;
    }
    for (study, bounds) in expected {
        let ran = ran.get(study).copied().unwrap_or_default();
        if ran != bounds {
            faults.push(format!(
                "{study}: {ran} of its bounds were measured, not {bounds} (xtask/src/bench/known.rs)"
            ));
        }
    }
    Ok(faults)
}

fn parse(report: &str) -> Result<Vec<Measured>> {
    let report: Value = serde_json::from_str(report).context("the results are no JSON")?;
    let studies = report["studies"].as_array().context("no studies")?;
    let mut measured = Vec::new();
    for results in studies {
        let study = results["study"]
            .as_str()
            .context("a study without a name")?;
        let bounds = results["bounds"].as_array().context("no bounds")?;
        for bound in bounds {
            let one = measured_bound(study, bound);
            measured.push(one.with_context(|| format!("{study}: the bound {bound}"))?);
        }
    }
    Ok(measured)
}

fn measured_bound(study: &str, bound: &Value) -> Option<Measured> {
    let limit = &bound["limit"];
    let at_most = limit["at_most"].as_f64().map(Limit::AtMost);
    let value = &bound["value"];
    Some(Measured {
        study: study.to_owned(),
        label: bound["label"].as_str()?.to_owned(),
        limit: at_most.or_else(|| limit["at_least"].as_f64().map(Limit::AtLeast))?,
        lower: value["lower"].as_f64()?,
        median: value["median"].as_f64()?,
        upper: value["upper"].as_f64()?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::known::{BOUNDS, MISSES},
        *,
    };

    const MISS: Miss = Miss {
        study: "packets/one",
        label: "over the floor",
        figure: 2.4,
        holds: Holds::Everywhere,
        reason: "a slow table",
    };

    /// A report with one bound, as the bench writes it, and three figures: the median and the quartiles.
    fn report(limit: &Value, [lower, median, upper]: [f64; 3]) -> String {
        let bound = json!({
            "label": "over the floor",
            "limit": limit,
            "value": {"lower": lower, "median": median, "upper": upper},
            "met": true,
        });
        json!({"studies": [{"study": "packets/one", "bounds": [bound]}, {
            "study": "packets/two", "bounds": []
        }]})
        .to_string()
    }

    fn faults_of(limit: &Value, values: [f64; 3], misses: &[Miss]) -> Vec<String> {
        let expected = [("packets/one", 1)];
        faults(&report(limit, values), misses, expected.into_iter()).unwrap()
    }

    #[test]
    fn a_bound_of_0_is_missed() {
        let values = [1.0, 1.1, 1.2];
        assert_eq!(faults_of(&json!({"at_most": 2.2}), values, &[]), [""; 0]);
        let expected = ["packets/one: over the floor: 1.100 misses AtMost(0.0)"];
        assert_eq!(faults_of(&json!({"at_most": 0.0}), values, &[]), expected);
        let missed = faults_of(&json!({"at_least": 1.15}), values, &[]);
        assert_eq!(
            missed,
            ["packets/one: over the floor: 1.100 misses AtLeast(1.15)"]
        );
    }

    #[test]
    fn a_known_miss_may_be_missed_as_far_as_it_was() {
        let limit = json!({"at_most": 2.2});
        assert_eq!(faults_of(&limit, [2.3, 2.5, 2.6], &[MISS]), [""; 0]);
        let worse = faults_of(&limit, [3.0, 3.1, 3.2], &[MISS]);
        assert_eq!(
            worse,
            [
                "packets/one: over the floor: 3.100 misses AtMost(2.2) by more than the listed 2.4 \
              (a slow table)"
            ]
        );
    }

    #[test]
    fn a_known_miss_that_is_met_by_a_margin_leaves_the_list() {
        let limit = json!({"at_most": 2.2});
        let expected = [
            "packets/one: over the floor: 1.800 meets AtMost(2.2), and is a known miss (a slow table)",
        ];
        assert_eq!(faults_of(&limit, [1.7, 1.8, 1.9], &[MISS]), expected);
        // Not by a margin, or not in a quarter of the rounds.
        assert_eq!(faults_of(&limit, [2.0, 2.1, 2.1], &[MISS]), [""; 0]);
        assert_eq!(faults_of(&limit, [1.7, 1.8, 2.3], &[MISS]), [""; 0]);
        let somewhere = Miss {
            holds: Holds::Somewhere,
            ..MISS
        };
        assert_eq!(faults_of(&limit, [1.7, 1.8, 1.9], &[somewhere]), [""; 0]);
    }

    #[test]
    fn a_bound_that_did_not_run_is_a_fault() {
        let report = report(&json!({"at_most": 2.2}), [1.0, 1.0, 1.0]);
        let expected = [("packets/one", 2), ("packets/two", 0), ("packets/three", 1)];
        let faults = faults(&report, &[], expected.into_iter()).unwrap();
        assert_eq!(
            faults,
            [
                "packets/one: 1 of its bounds were measured, not 2 (xtask/src/bench/known.rs)",
                "packets/three: 0 of its bounds were measured, not 1 (xtask/src/bench/known.rs)",
            ]
        );
    }

    #[test]
    fn results_of_another_form_are_an_error() {
        let none = || std::iter::empty();
        for text in ["", "{}", r#"{"studies": [{"study": "a"}]}"#] {
            assert!(faults(text, &[], none()).is_err(), "{text}");
        }
        let without_value = r#"{"studies": [{"study": "a", "bounds": [{"label": "b"}]}]}"#;
        assert!(faults(without_value, &[], none()).is_err());
    }

    #[test]
    fn each_known_miss_is_of_a_study_with_bounds() {
        for Miss { study, label, .. } in MISSES {
            let is_known = BOUNDS.iter().any(|(known, _)| *known == study);
            assert!(is_known, "{study}: {label}");
        }
    }
}
