//! Conditions of a workload: whether it is published, and whether it is ready.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::controllers::workloads::{probes::prober::Verdict, verdicts::Trouble};

/// The type of our own condition.
const PUBLISHED: &str = "Published";

/// The type of the condition that endpoints are made by.
const READY: &str = "Ready";

/// Has these conditions show whether the workload is published; returns whether that is new. One that never had a
/// trouble does not get a condition that it has none.
pub(super) fn set_published(
    conditions: &mut Vec<Value>,
    trouble: Option<&Trouble>,
    now: SystemTime,
) -> bool {
    let new = match trouble {
        Some(Trouble { reason, message }) => (false, *reason, &**message),
        None => (
            true,
            "Published",
            "it is an endpoint of the Services that select it",
        ),
    };
    let known = conditions.iter_mut().find(|one| one["type"] == PUBLISHED);
    match known {
        None if trouble.is_none() => false,
        None => {
            conditions.push(condition(PUBLISHED, new, now));
            true
        }
        Some(known) => {
            let (is_true, reason, message) = new;
            let status = status(is_true);
            if known["status"] == status && known["reason"] == reason && known["message"] == message
            {
                return false;
            }
            if known["status"] != status {
                known["lastTransitionTime"] = time(now);
            }
            known["status"] = json!(status);
            known["reason"] = json!(reason);
            known["message"] = json!(message);
            true
        }
    }
}

/// Has these conditions show whether the workload is ready; returns whether that is new. A condition that does so
/// already stays as it is, whatever else is in it.
pub(super) fn set_ready(conditions: &mut Vec<Value>, verdict: &Verdict, now: SystemTime) -> bool {
    let Verdict { is_ready, message } = verdict;
    let mut known = conditions.iter().filter(|one| one["type"] == READY);
    let says_so = known
        .next()
        .is_some_and(|first| first["status"] == status(*is_ready));
    // Of several, one that shows it ready is enough for being so.
    if says_so && known.next().is_none() {
        return false;
    }
    let reason = if *is_ready {
        "ProbeSucceeded"
    } else {
        "ProbeFailed"
    };
    let new = condition(READY, (*is_ready, reason, message), now);
    let place = conditions.iter().position(|one| one["type"] == READY);
    conditions.retain(|one| one["type"] != READY);
    conditions.insert(place.unwrap_or(conditions.len()), new);
    true
}

fn condition(kind: &str, new: (bool, &str, &str), now: SystemTime) -> Value {
    let (is_true, reason, message) = new;
    json!({
        "type": kind, "status": status(is_true), "reason": reason, "message": message,
        "lastTransitionTime": time(now),
    })
}

const fn status(is_true: bool) -> &'static str {
    if is_true { "True" } else { "False" }
}

fn time(now: SystemTime) -> Value {
    json!(humantime::format_rfc3339_seconds(now).to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::objects::external_workload_schema::manifest;

    /// So many seconds after 1970.
    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_condition_is_written_when_it_changes_and_others_stay() {
        let ready = json!({ "type": "Ready", "status": "True", "extra": 1 });
        let trouble = |message: &str| Trouble {
            reason: "NoMatchingPort",
            message: message.to_owned(),
        };
        let mut conditions = vec![ready.clone()];
        assert!(!set_published(&mut conditions, None, at(0)), "nobody asked");
        assert!(set_published(&mut conditions, Some(&trouble("a")), at(0)));
        assert_eq!(
            (conditions.len(), &conditions[0], &conditions[1]["status"]),
            (2, &ready, &json!("False"))
        );
        assert!(!set_published(&mut conditions, Some(&trouble("a")), at(9)));
        assert!(set_published(&mut conditions, Some(&trouble("b")), at(9)));
        assert_eq!(conditions[1]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert!(set_published(&mut conditions, None, at(9)));
        assert_eq!(conditions[1]["status"], "True");
        assert_eq!(conditions[1]["lastTransitionTime"], "1970-01-01T00:00:09Z");
        assert_eq!(conditions[0], ready);
    }

    #[test]
    fn readiness_is_written_on_transitions_alone() {
        let of = |is_ready: bool, message: &'static str| Verdict { is_ready, message };
        let other = json!({ "type": "Other", "status": "False" });
        let mut conditions = vec![other.clone()];
        assert!(set_ready(&mut conditions, &of(true, "it answers"), at(0)));
        let first = json!({
            "type": "Ready", "status": "True", "reason": "ProbeSucceeded", "message": "it answers",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        });
        assert_eq!(conditions, [other.clone(), first]);
        assert!(!set_ready(&mut conditions, &of(true, "again"), at(9)));
        assert!(set_ready(&mut conditions, &of(false, "away"), at(9)));
        assert!(!set_ready(&mut conditions, &of(false, "still"), at(19)));
        assert_eq!(conditions[1]["reason"], "ProbeFailed");
        assert_eq!(conditions[1]["message"], "away");
        assert_eq!(conditions[1]["lastTransitionTime"], "1970-01-01T00:00:09Z");
        // What a user wrote by hand, also twice, gives way; one with the same status stays.
        let by_hand = |status: &str| json!({ "type": "Ready", "status": status });
        let mut twice = vec![by_hand("False"), other.clone(), by_hand("True")];
        assert!(set_ready(&mut twice, &of(false, "away"), at(9)));
        assert_eq!(twice, [conditions[1].clone(), other]);
        let mut same = vec![by_hand("False")];
        assert!(!set_ready(&mut same, &of(false, "away"), at(9)));
        assert!(set_ready(
            &mut vec![by_hand("Unknown")],
            &of(false, "away"),
            at(9)
        ));
    }
    #[test]
    fn the_definition_has_a_place_for_what_is_written() {
        let mut conditions = Vec::new();
        let verdict = Verdict {
            is_ready: true,
            message: "it answers",
        };
        let trouble = Trouble {
            reason: "NoMatchingPort",
            message: "a".to_owned(),
        };
        assert!(set_ready(&mut conditions, &verdict, at(0)));
        assert!(set_published(&mut conditions, Some(&trouble), at(0)));
        let list = &manifest("status")["properties"]["conditions"];
        // A server merges by type, and drops what the definition does not know.
        assert_eq!(list["x-kubernetes-list-map-keys"], json!(["type"]));
        let schema = &list["items"];
        for condition in &conditions {
            for (field, value) in condition.as_object().unwrap() {
                let known = &schema["properties"][field];
                assert_eq!(known["type"], "string", "{field}");
                let choices = known["enum"].as_array();
                assert!(
                    choices.is_none_or(|choices| choices.contains(value)),
                    "{field}: {value}"
                );
            }
            for field in schema["required"].as_array().unwrap() {
                assert!(condition[field.as_str().unwrap()].is_string(), "{field}");
            }
        }
    }
}
