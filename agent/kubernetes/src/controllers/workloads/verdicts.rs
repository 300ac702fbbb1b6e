//! Workloads that are no endpoints although a Service selects them, and why: the messages for their users.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use shunt_model::ServiceId;

use crate::{
    controllers::workloads::{allowed::Refusal, desired::LeftOut},
    objects::external_workload::{ExternalWorkload, WorkloadKey},
};

/// Why each workload is left out, by the Services that leave it out.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    by_service: HashMap<ServiceId, BTreeMap<Arc<WorkloadKey>, LeftOut>>,
    by_workload: HashMap<Arc<WorkloadKey>, BTreeMap<ServiceId, LeftOut>>,
}

/// Message about a workload that is no endpoint, or not of all that select it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// An address that a workload may not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) address: IpAddr,
    pub(super) why: Refusal,
}

impl Refused {
    /// Returns the message about the workload.
    pub(super) fn trouble(self) -> Trouble {
        let Self { address, why } = self;
        Trouble {
            reason: "Refused",
            message: format!(
                "spec.workloadIPs: {address} is {}, so the workload is neither published nor probed",
                why.what()
            ),
        }
    }
}

impl Verdicts {
    /// Sets the workloads that a Service leaves out, and no others. Returns those whose message differs from
    /// before.
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

    /// Returns the trouble with a workload.
    pub(super) fn of(&self, workload: &ExternalWorkload) -> Option<Trouble> {
        if let Err(error) = &workload.body {
            return Some(Trouble {
                reason: "Invalid",
                message: error.to_string(),
            });
        }
        let left_out = self.of_services(workload);
        // It is an endpoint all the same, and it is not probed whether it is ready.
        let bad_probe = || {
            let error = workload.probe.as_ref()?.as_ref().err()?;
            Some(Trouble {
                reason: "InvalidProbe",
                message: error.to_string(),
            })
        };
        left_out.or_else(bad_probe)
    }

    /// Why Services leave it out.
    fn of_services(&self, workload: &ExternalWorkload) -> Option<Trouble> {
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

    /// Returns the number of workloads that are left out somewhere.
    pub(super) fn len(&self) -> usize {
        self.by_workload.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        controllers::workloads::desired::LeftOut::NoMatchingPort,
        objects::external_workload::{RawLinkerd, RawOwn},
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
        let linkerds: RawLinkerd = serde_json::from_value(json!({
            "metadata": { "namespace": "a", "name": "vm", "annotations": {
                "workload.shunt.io/readiness-probe": "{}",
            } },
            "spec": {},
        }))
        .unwrap();
        assert_eq!(
            verdicts.of(&linkerds.into()).unwrap().reason,
            "InvalidProbe"
        );
    }
}
