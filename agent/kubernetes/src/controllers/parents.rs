//! `status.parents` of a route: our entries among those of others.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::{
    controllers::observed::{ParentReport, Report},
    routes::verdict::Verdict,
};

/// Controller name of our entries.
pub(super) const CONTROLLER: &str = "shunt.io/controller";

/// Maximum number of entries in the API.
const AT_MOST: usize = 32;

/// The entries of a status as they are to be; `None`: as they are. Those of other controllers stay as
/// they are, and where they are.
pub(super) fn merged(current: &[Value], report: &Report, now: SystemTime) -> Option<Vec<Value>> {
    let is_ours = |entry: &Value| entry["controllerName"] == CONTROLLER;
    let others = current.iter().filter(|entry| !is_ours(entry)).count();
    // An entry without room cannot be shown.
    let wanted = &report.parents[..report.parents.len().min(AT_MOST.saturating_sub(others))];
    let known = |parent: &ParentReport| {
        let mut entries = current.iter().filter(|entry| is_ours(entry));
        entries.find(|entry| entry["parentRef"] == parent.parent)
    };
    let of = |entry: &Value| wanted.iter().find(|one| one.parent == entry["parentRef"]);
    let mut entries: Vec<Value> = Vec::with_capacity(current.len() + wanted.len());
    for entry in current {
        if !is_ours(entry) {
            entries.push(entry.clone());
        } else if let Some(parent) = of(entry)
            && known(parent).is_some_and(|first| std::ptr::eq(first, entry))
        {
            entries.push(ours(parent, report.generation, Some(entry), now));
        }
    }
    let new = wanted.iter().filter(|parent| known(parent).is_none());
    entries.extend(new.map(|parent| ours(parent, report.generation, None, now)));
    (entries != current).then_some(entries)
}

fn ours(parent: &ParentReport, generation: i64, before: Option<&Value>, now: SystemTime) -> Value {
    let ParentReport {
        parent,
        accepted,
        resolved,
    } = parent;
    let one = |kind, verdict| condition(kind, verdict, generation, before, now);
    json!({
        "parentRef": parent,
        "controllerName": CONTROLLER,
        "conditions": [one("Accepted", accepted), one("ResolvedRefs", resolved)],
    })
}

/// The condition; its last transition is when its status last was another one.
fn condition(
    kind: &str,
    verdict: &Verdict,
    generation: i64,
    before: Option<&Value>,
    now: SystemTime,
) -> Value {
    let status = if verdict.reason.is_good() {
        "True"
    } else {
        "False"
    };
    let before = before.and_then(|entry| entry["conditions"].as_array());
    let mut known = before.into_iter().flatten();
    let same = known.find(|known| known["type"] == kind && known["status"] == status);
    let since = same.and_then(|known| known["lastTransitionTime"].as_str());
    let since = since.map_or_else(
        || humantime::format_rfc3339_seconds(now).to_string(),
        str::to_owned,
    );
    json!({
        "type": kind,
        "status": status,
        "reason": verdict.reason.name(),
        "message": verdict.message,
        "observedGeneration": generation,
        "lastTransitionTime": since,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shunt_model::ServiceId;

    use super::*;
    use crate::routes::{book::RouteKind, verdict::Reason};

    fn verdict(reason: Reason) -> Verdict {
        let message = reason.name().to_lowercase();
        Verdict { reason, message }
    }

    fn report(generation: i64, parents: &[(&str, Reason)]) -> Report {
        let parents = parents.iter().map(|(name, reason)| ParentReport {
            parent: json!({ "group": "", "kind": "Service", "name": name }),
            accepted: verdict(*reason),
            resolved: verdict(Reason::ResolvedRefs),
        });
        Report {
            kind: RouteKind::Tcp,
            id: ServiceId::new("default", "r"),
            uid: "u".into(),
            api_version: "gateway.networking.k8s.io/v1".into(),
            generation,
            parents: parents.collect(),
        }
    }

    fn others(name: &str) -> Value {
        json!({
            "parentRef": { "group": "", "kind": "Service", "name": name },
            "controllerName": "other.example/controller",
            "conditions": [{ "type": "Accepted", "status": "Unknown", "extra": [1, 2] }],
        })
    }

    /// So many seconds after 1970.
    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn transitions(entry: &Value) -> [&str; 2] {
        [0, 1].map(|index| {
            let condition = &entry["conditions"][index];
            condition["lastTransitionTime"].as_str().unwrap()
        })
    }

    #[test]
    fn nothing_is_written_twice() {
        let report = report(3, &[("web", Reason::Accepted)]);
        let first = merged(&[], &report, at(0)).unwrap();
        assert_eq!(
            first,
            [json!({
                "parentRef": { "group": "", "kind": "Service", "name": "web" },
                "controllerName": "shunt.io/controller",
                "conditions": [
                    {
                        "type": "Accepted", "status": "True", "reason": "Accepted",
                        "message": "accepted", "observedGeneration": 3,
                        "lastTransitionTime": "1970-01-01T00:00:00Z",
                    },
                    {
                        "type": "ResolvedRefs", "status": "True", "reason": "ResolvedRefs",
                        "message": "resolvedrefs", "observedGeneration": 3,
                        "lastTransitionTime": "1970-01-01T00:00:00Z",
                    },
                ],
            })]
        );
        assert_eq!(merged(&first, &report, at(60)), None);
    }

    #[test]
    fn a_transition_is_one_of_the_status_alone() {
        let of = |generation, reason| report(generation, &[("web", reason)]);
        let first = merged(&[], &of(1, Reason::Accepted), at(0)).unwrap();
        let second = merged(&first, &of(2, Reason::Accepted), at(60)).unwrap();
        assert_eq!(transitions(&second[0]), ["1970-01-01T00:00:00Z"; 2]);
        let third = merged(&second, &of(2, Reason::Conflicted), at(120)).unwrap();
        let expected = ["1970-01-01T00:02:00Z", "1970-01-01T00:00:00Z"];
        assert_eq!(transitions(&third[0]), expected);
        let fourth = merged(&third, &of(2, Reason::NoMatchingParent), at(180)).unwrap();
        assert_eq!(transitions(&fourth[0]), expected, "it was false already");
    }

    #[test]
    fn entries_of_others_stay_as_they_are_and_where_they_are() {
        let one = report(1, &[("web", Reason::Accepted)]);
        let [ours] = <[Value; 1]>::try_from(merged(&[], &one, at(0)).unwrap()).unwrap();
        let mixed = [others("web"), ours.clone(), others("api")];
        assert_eq!(merged(&mixed, &one, at(60)), None);
        let both = report(1, &[("web", Reason::Accepted), ("api", Reason::Accepted)]);
        let added = merged(&mixed, &both, at(0)).unwrap();
        assert_eq!(added[..3], mixed);
        assert_eq!(added[3]["parentRef"]["name"], "api");
        let none = merged(&mixed, &report(1, &[]), at(0)).unwrap();
        assert_eq!(none, [others("web"), others("api")]);
        // One that stands there twice is one afterwards.
        let twice = [ours.clone(), others("api"), ours.clone()];
        assert_eq!(merged(&twice, &one, at(0)), Some(vec![ours, others("api")]));
        assert_eq!(merged(&[others("web")], &report(1, &[]), at(0)), None);
    }

    #[test]
    fn there_are_no_more_entries_than_the_api_takes() {
        let many: Vec<Value> = (0..31).map(|number| others(&number.to_string())).collect();
        let both = report(1, &[("web", Reason::Accepted), ("api", Reason::Accepted)]);
        let merged = merged(&many, &both, at(0)).unwrap();
        assert_eq!((merged.len(), &merged[..31]), (32, &*many));
    }
}
