//! Permissions to refer to Services of another namespace.

use std::collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry};

use shunt_model::ServiceId;

use crate::{
    objects::{
        reference_grant::{GrantFrom, ReferenceGrant},
        route::is_core,
    },
    watch::step::Step,
};

/// The group of the objects that refer.
const GROUP: &str = "gateway.networking.k8s.io";

/// All ReferenceGrants.
#[derive(Debug, Default)]
pub(super) struct Grants {
    known: BTreeMap<ServiceId, ReferenceGrant>,
    /// Each with the number of grants that give it.
    permissions: HashMap<Permission, usize>,
}

/// A permission: the kind and namespace of those objects that refer, the namespace and, if it has one, the name
/// of the Service.
type Permission = (Box<str>, Box<str>, Box<str>, Option<Box<str>>);

impl Grants {
    /// Takes note of the news, and returns the namespaces that it concerns.
    pub(super) fn take(&mut self, step: Step<ReferenceGrant>) -> BTreeSet<Box<str>> {
        let mut concerned = BTreeSet::new();
        match step {
            Step::Listed(list) => {
                let present: BTreeSet<&ServiceId> =
                    list.objects.iter().map(|grant| &grant.id).collect();
                let gone = self.known.keys().filter(|id| !present.contains(id));
                let gone = gone.filter(|id| !list.keeps(&id.namespace, &id.name));
                let gone: Vec<ServiceId> = gone.cloned().collect();
                concerned.extend(gone.iter().filter_map(|id| self.remove(id)));
                let list = list.objects.into_iter();
                concerned.extend(list.filter_map(|grant| self.put(grant)));
            }
            Step::Applied(grant) => concerned.extend(self.put(grant)),
            Step::Deleted(grant) => concerned.extend(self.remove(&grant.id)),
            // What was known stays.
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {}
        }
        concerned
    }

    fn put(&mut self, grant: ReferenceGrant) -> Option<Box<str>> {
        if self.known.get(&grant.id) == Some(&grant) {
            return None;
        }
        self.remove(&grant.id);
        for permission in permissions(&grant) {
            *self.permissions.entry(permission).or_default() += 1;
        }
        let namespace = grant.id.namespace.clone();
        self.known.insert(grant.id.clone(), grant);
        Some(namespace)
    }

    fn remove(&mut self, id: &ServiceId) -> Option<Box<str>> {
        let grant = self.known.remove(id)?;
        for permission in permissions(&grant) {
            if let Entry::Occupied(mut count) = self.permissions.entry(permission) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        Some(grant.id.namespace)
    }

    /// Returns whether routes of this kind and namespace may refer to the Service.
    pub(super) fn permit(&self, kind: &str, namespace: &str, service: &ServiceId) -> bool {
        let ServiceId {
            namespace: to,
            name,
        } = service;
        [Some(name), None].into_iter().any(|name| {
            let permission = (kind.into(), namespace.into(), to.clone(), name.cloned());
            self.permissions.contains_key(&permission)
        })
    }
}

/// Returns the permissions of a grant, as far as it is about routes and Services.
fn permissions(grant: &ReferenceGrant) -> impl Iterator<Item = Permission> {
    let ReferenceGrant { id, from, to } = grant;
    let from = from.iter().filter(|from| *from.group == *GROUP);
    let to = to
        .iter()
        .filter(|to| is_core(&to.group) && *to.kind == *"Service");
    from.flat_map(move |from| {
        to.clone().map(move |to| {
            let GrantFrom {
                group: _,
                kind,
                namespace,
            } = from;
            (
                kind.clone(),
                namespace.clone(),
                id.namespace.clone(),
                to.name.clone(),
            )
        })
    })
}
