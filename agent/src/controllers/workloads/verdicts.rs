//! Which workloads are no endpoints although a Service selects them, and why: what their users are told.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::SystemTime,
};

use serde_json::{Value, json};
use shunt_model::ServiceId;

use crate::{
    controllers::workloads::desired::LeftOut,
    source::kubernetes::objects::external_workload::{ExternalWorkload, WorkloadKey},
};

/// The type of our condition.
pub(super) const PUBLISHED: &str = "Published";

/// Why each workload is left out, by the Services that leave it out.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    by_service: HashMap<ServiceId, BTreeMap<Arc<WorkloadKey>, LeftOut>>,
    by_workload: HashMap<Arc<WorkloadKey>, BTreeMap<ServiceId, LeftOut>>,
}

/// What is to be said of a workload that is no endpoint, or not of all that select it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Verdicts {
    /// A Service leaves these workloads out, and no others. Gives those of which something else is to be
    /// said than before.
    pub(super) fn set(
        &mut self,
        service: &ServiceId,
        left_out: BTreeMap<Arc<WorkloadKey>, LeftOut>,
    ) -> BTreeSet<Arc<WorkloadKey>> {
        let old = self.by_service.remove(service).unwrap_or_default();
        let mut changed = BTreeSet::new();
        for (key, why) in &old {
            if left_out.get(key) != Some(why) {
                changed.insert(Arc::clone(key));
                if let Some(services) = self.by_workload.get_mut(key) {
                    services.remove(service);
                    if services.is_empty() {
                        self.by_workload.remove(key);
                    }
                }
            }
        }
        for (key, why) in &left_out {
            if old.get(key) != Some(why) {
                changed.insert(Arc::clone(key));
                let services = self.by_workload.entry(Arc::clone(key)).or_default();
                services.insert(service.clone(), *why);
            }
        }
        if !left_out.is_empty() {
            self.by_service.insert(service.clone(), left_out);
        }
        changed
    }

    /// What is wrong with a workload.
    pub(super) fn of(&self, workload: &ExternalWorkload) -> Option<Trouble> {
        if let Err(error) = &workload.body {
            return Some(Trouble {
                reason: "Invalid",
                message: error.to_string(),
            });
        }
        let services = self.by_workload.get(&workload.key)?;
        let why = *services.values().min()?;
        let named = services.iter().filter(|(_, own)| **own == why);
        let named: Vec<&str> = named.map(|(id, _)| &*id.name).take(10).collect();
        let named = named.join(", ");
        Some(match why {
            LeftOut::NoAddress => Trouble {
                reason: "NoAddress",
                message: format!(
                    "it has no address that clients could reach, so these Services do without it: {named}"
                ),
            },
            LeftOut::NoMatchingPort => Trouble {
                reason: "NoMatchingPort",
                message: format!(
                    "it declares none of the target ports of these Services, by name or number and \
                     protocol: {named}"
                ),
            },
        })
    }

    /// How many workloads are left out somewhere.
    pub(super) fn len(&self) -> usize {
        self.by_workload.len()
    }
}

/// The conditions of a workload as they are to be with the one that says whether it is published; `None`: as
/// they are. One that never had a trouble is not told that it has none.
pub(super) fn conditions(
    workload: &ExternalWorkload,
    trouble: Option<&Trouble>,
    now: SystemTime,
) -> Option<Vec<Value>> {
    let mut conditions = workload.conditions.clone();
    let known = conditions.iter_mut().find(|one| one["type"] == PUBLISHED);
    let (status, reason, message) = match trouble {
        Some(Trouble { reason, message }) => ("False", *reason, &**message),
        None => (
            "True",
            "Published",
            "it is an endpoint of the Services that select it",
        ),
    };
    let now = humantime::format_rfc3339_seconds(now).to_string();
    match known {
        None if trouble.is_none() => return None,
        None => conditions.push(json!({
            "type": PUBLISHED, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": now,
        })),
        Some(known) => {
            if known["status"] == status && known["reason"] == reason && known["message"] == message
            {
                return None;
            }
            if known["status"] != status {
                known["lastTransitionTime"] = json!(now);
            }
            known["status"] = json!(status);
            known["reason"] = json!(reason);
            known["message"] = json!(message);
        }
    }
    Some(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        controllers::workloads::desired::LeftOut::NoMatchingPort,
        source::kubernetes::objects::external_workload::RawOwn,
    };

    fn workload(spec: &Value, conditions: &Value) -> ExternalWorkload {
        let raw: RawOwn = serde_json::from_value(json!({
            "metadata": { "namespace": "a", "name": "vm" }, "spec": spec,
            "status": { "conditions": conditions },
        }))
        .unwrap();
        raw.into()
    }

    #[test]
    fn a_workload_is_told_why_it_is_left_out_and_that_it_is_not_any_more() {
        let vm = workload(&json!({}), &json!([{ "type": "Ready", "status": "True" }]));
        let (one, two) = (ServiceId::new("a", "one"), ServiceId::new("a", "two"));
        let out = || BTreeMap::from([(Arc::clone(&vm.key), NoMatchingPort)]);
        let mut verdicts = Verdicts::default();
        assert_eq!(verdicts.of(&vm), None);
        assert_eq!(verdicts.set(&one, out()).len(), 1);
        assert_eq!(verdicts.set(&one, out()).len(), 0, "that is known");
        verdicts.set(&two, out());
        let trouble = verdicts.of(&vm).unwrap();
        assert_eq!(trouble.reason, "NoMatchingPort");
        assert!(trouble.message.ends_with("one, two"), "{}", trouble.message);
        verdicts.set(&one, BTreeMap::new());
        verdicts.set(&two, BTreeMap::new());
        assert_eq!((verdicts.of(&vm), verdicts.len()), (None, 0));
        let bad = workload(&json!({ "ports": [{ "port": 0 }] }), &json!([]));
        assert_eq!(verdicts.of(&bad).unwrap().reason, "Invalid");
    }

    #[test]
    fn a_condition_is_written_when_it_changes_and_others_stay() {
        let ready = json!({ "type": "Ready", "status": "True", "extra": 1 });
        let at = |second| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(second);
        let trouble = |message: &str| Trouble {
            reason: "NoMatchingPort",
            message: message.to_owned(),
        };
        let fine = workload(&json!({}), &json!([ready]));
        assert_eq!(conditions(&fine, None, at(0)), None, "nobody asked");
        let first = conditions(&fine, Some(&trouble("a")), at(0)).unwrap();
        assert_eq!(
            (first.len(), &first[0], &first[1]["status"]),
            (2, &ready, &json!("False"))
        );
        let told = workload(&json!({}), &json!(first));
        assert_eq!(conditions(&told, Some(&trouble("a")), at(9)), None);
        let second = conditions(&told, Some(&trouble("b")), at(9)).unwrap();
        assert_eq!(second[1]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        let third = conditions(&told, None, at(9)).unwrap();
        assert_eq!(third[1]["status"], "True");
        assert_eq!(third[1]["lastTransitionTime"], "1970-01-01T00:00:09Z");
    }
}
