//! Alias checks: as the checks of another service are.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::local::{
    definition::check::Probe,
    state::{check::Check, definitions::Definitions, status::Status},
};

/// Number of aliases in a row that an output follows to the check that fails.
const FOLLOWED: usize = 8;

/// Returns the status of alias checks, by id: a function of all that is registered and of the status of other
/// checks, by `status`. Nothing has to be noticed for it, so nothing is noticed late.
///
/// An alias is the worst of what it stands for, and critical if that is not there. Aliases that stand
/// for each other in a circle are as what is outside the circle has them: each begins as passing, and
/// gets worse until nothing changes, which comes to the same whatever is looked at first.
pub(crate) fn aliases(
    known: &Definitions,
    status: impl Fn(&Check) -> Status,
) -> BTreeMap<Arc<str>, Status> {
    let mut found = BTreeMap::<&str, Status>::new();
    // Aliases to look at again when the checks of a service get worse.
    let mut standing_for = BTreeMap::<&str, Vec<&str>>::new();
    for check in known.checks() {
        if let Probe::Alias(target) = &check.probe {
            found.insert(&check.id, Status::Passing);
            standing_for.entry(target).or_default().push(&check.id);
        }
    }
    let mut waiting: BTreeSet<&str> = found.keys().copied().collect();
    while let Some(id) = waiting.pop_first() {
        let Some((alias, target)) = known
            .check(id)
            .and_then(|check| Some((check, target(check)?)))
        else {
            continue;
        };
        let worst = if is_there(known, target) {
            let checks = known.checks_of(target);
            let statuses = checks.map(|check| match found.get(check.id.as_str()) {
                Some(status) => *status,
                None => status(check),
            });
            statuses.max().unwrap_or(Status::Passing)
        } else {
            Status::Critical
        };
        if found.get(id).is_some_and(|had| *had < worst) {
            found.insert(id, worst);
            // A check of the node counts for every service.
            if alias.service.is_empty() {
                waiting.extend(standing_for.values().flatten());
            } else {
                let those = standing_for.get(alias.service.as_str());
                waiting.extend(those.into_iter().flatten());
            }
        }
    }
    let found = found.into_iter();
    found.map(|(id, status)| (Arc::from(id), status)).collect()
}

/// Returns the target of an alias.
fn target(check: &Check) -> Option<&str> {
    match &check.probe {
        Probe::Alias(target) => Some(target),
        _ => None,
    }
}

/// The node always is.
fn is_there(known: &Definitions, target: &str) -> bool {
    target.is_empty() || known.service(target).is_some()
}

/// Returns the output of an alias, in Consul's words.
pub(crate) fn output(
    alias: &Check,
    known: &Definitions,
    health: impl Fn(&Check) -> (Status, String),
) -> String {
    let mut text = String::new();
    let mut alias = alias;
    for _ in 0..FOLLOWED {
        let Probe::Alias(target) = &alias.probe else {
            break;
        };
        if !is_there(known, target) {
            return text + &format!("Service {target} could not be found on node ");
        }
        let checks: Vec<_> = known.checks_of(target).collect();
        let worst = checks.iter().map(|check| health(check).0).max();
        let failing = checks
            .iter()
            .filter(|check| health(check).0 != Status::Passing);
        // A check that fails by itself shows more than one that follows it.
        let is_alias = |check: &Check| matches!(check.probe, Probe::Alias(_));
        let failing = failing.filter(|check| Some(health(check).0) == worst);
        let Some(failing) = failing.min_by_key(|check| is_alias(check)) else {
            return text
                + if checks.is_empty() {
                    "No checks found."
                } else {
                    "All checks passing."
                };
        };
        text += &format!("Aliased check \"{}\" failing: ", failing.name);
        if !is_alias(failing) {
            return text + &health(failing).1;
        }
        alias = failing;
    }
    text
}
