//! Who may refer to Services of another namespace.

use std::collections::{BTreeMap, BTreeSet};

use shunt_model::ServiceId;

use crate::source::kubernetes::{
    objects::{
        reference_grant::{GrantFrom, GrantTo, ReferenceGrant},
        route::is_core,
    },
    watch::step::Step,
};

/// The group of those who refer.
const GROUP: &str = "gateway.networking.k8s.io";

/// All ReferenceGrants.
#[derive(Debug, Default)]
pub(super) struct Grants(BTreeMap<ServiceId, ReferenceGrant>);

impl Grants {
    /// Takes note of what is new, and gives the namespaces that it concerns.
    pub(super) fn take(&mut self, step: Step<ReferenceGrant>) -> BTreeSet<Box<str>> {
        let Self(known) = self;
        match step {
            Step::Listed(list) => {
                let kept = known.iter();
                let kept = kept.filter(|(id, _)| list.keeps(&id.namespace, &id.name));
                let kept: BTreeMap<_, _> =
                    kept.map(|(id, one)| (id.clone(), one.clone())).collect();
                let list = list.objects.into_iter();
                let list = list.map(|grant| (grant.id.clone(), grant));
                let list: BTreeMap<_, _> = kept.into_iter().chain(list).collect();
                let ids = known.keys().chain(list.keys());
                let changed = ids.filter(|id| known.get(id) != list.get(id));
                let changed = changed.map(|id| id.namespace.clone()).collect();
                *known = list;
                changed
            }
            Step::Applied(grant) if known.get(&grant.id) != Some(&grant) => {
                let namespace = grant.id.namespace.clone();
                known.insert(grant.id.clone(), grant);
                [namespace].into()
            }
            Step::Deleted(grant) => known.remove(&grant.id).map_or_else(BTreeSet::new, |grant| {
                let ReferenceGrant { id, .. } = grant;
                [id.namespace].into()
            }),
            // What was known stays.
            Step::Applied(_)
            | Step::Unreadable(_)
            | Step::Alive
            | Step::Lost(_)
            | Step::Absent(_) => BTreeSet::new(),
        }
    }

    /// Whether routes of this kind and namespace may refer to the Service.
    pub(super) fn permit(&self, kind: &str, namespace: &str, service: &ServiceId) -> bool {
        let is_from = |from: &GrantFrom| {
            *from.group == *GROUP && *from.kind == *kind && *from.namespace == *namespace
        };
        let is_to = |to: &GrantTo| {
            is_core(&to.group)
                && *to.kind == *"Service"
                && to.name.as_ref().is_none_or(|name| *name == service.name)
        };
        let grants = self.0.values();
        let mut grants = grants.filter(|grant| grant.id.namespace == service.namespace);
        grants.any(|grant| grant.from.iter().any(is_from) && grant.to.iter().any(is_to))
    }
}
