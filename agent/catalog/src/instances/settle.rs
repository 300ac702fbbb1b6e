//! A source that has just come back may not know everything yet.

use std::collections::{HashMap, HashSet};

use crate::instances::instance::{CheckStatus, Instance};

/// Returns the part of `new` to believe while its source settles: an instance that is missing in it stays as in
/// `old`, and so do the checks of those that were well there. One that is new, or well again, counts at once.
pub(crate) fn settling(old: &[Instance], new: Vec<Instance>) -> Vec<Instance> {
    let known: HashMap<Key<'_>, &Instance> = old.iter().map(|old| (key(old), old)).collect();
    let settled = new.into_iter().map(|mut instance| {
        let before = known.get(&key(&instance));
        if let Some(before) = before.filter(|before| worst(before) < worst(&instance)) {
            instance.checks.clone_from(&before.checks);
        }
        instance
    });
    let mut settled: Vec<Instance> = settled.collect();
    let told: HashSet<Key<'_>> = settled.iter().map(key).collect();
    let missing = old.iter().filter(|old| !told.contains(&key(old)));
    let missing: Vec<Instance> = missing.cloned().collect();
    settled.extend(missing);
    settled
}

/// By what an instance is known again.
type Key<'a> = (&'a str, &'a str, &'a str);

fn key(instance: &Instance) -> Key<'_> {
    (&instance.datacenter, &instance.node, &instance.id)
}

fn worst(instance: &Instance) -> CheckStatus {
    let statuses = instance.checks.iter().map(|check| check.status);
    statuses.max().unwrap_or(CheckStatus::Passing)
}
