//! The states of the watches, one for each kind of objects.

use std::collections::{BTreeMap, BTreeSet};

use shunt_runtime::UnreadableObject;
use tracing::{info, warn};

use crate::{
    objects::custom::{CustomKind, Definition},
    watch::step::{Step, UnreadableObjects},
};

/// State of a watch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Link {
    /// True if all objects were listed once, or it is known that there are none to be had.
    pub(crate) is_complete: bool,
    /// Why nothing is heard, if that is so.
    pub(crate) trouble: Option<String>,
    /// The objects that cannot be read.
    pub(super) unreadable: UnreadableObjects,
    /// True if anything was heard yet.
    is_heard: bool,
    /// True if the server does not have the kind.
    is_absent: bool,
}

impl Link {
    /// Takes note of a step of the watch of these objects, and logs changes of its state.
    pub(crate) fn follow<T>(&mut self, name: &str, step: &Step<T>) {
        let before = self.clone();
        self.note(step);
        if let Step::Absent(reason) = step
            && !before.is_complete
        {
            warn!("{name} are not followed: {reason}");
        }
        if before.is_absent && !self.is_absent {
            info!("{name} are followed from now on");
        }
        match (&before.trouble, &self.trouble) {
            (None, Some(trouble)) => {
                warn!("{name} cannot be followed, so what is known of them stays: {trouble}");
            }
            (Some(_), None) => info!("{name} are followed again"),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    fn note<T>(&mut self, step: &Step<T>) {
        match step {
            Step::Listed(_) => {
                self.is_complete = true;
                self.trouble = None;
                self.is_heard = true;
                self.is_absent = false;
            }
            Step::Absent(_) => {
                *self = Self {
                    is_complete: true,
                    is_heard: true,
                    is_absent: true,
                    ..Self::default()
                }
            }
            Step::Unreadable(unreadable) => self.unreadable = unreadable.clone(),
            Step::Applied(_) | Step::Deleted(_) | Step::Alive => {
                self.trouble = None;
                self.is_heard = true;
            }
            Step::Lost(trouble) => self.trouble = Some(trouble.clone()),
        }
    }

    /// Returns whether what is known is up to date.
    pub(super) const fn is_up(&self) -> bool {
        self.is_heard && self.trouble.is_none()
    }
}

/// The watches of all kinds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Links {
    pub(super) services: Link,
    pub(super) endpoint_slices: Link,
    pub(super) service_cidrs: Link,
    pub(super) nodes: Link,
    /// That of all nodes, if they are wanted.
    pub(super) peers: Option<Link>,
    /// That of pods, if there is one. Nothing waits for it.
    pub(super) pods: Option<Link>,
    pub(super) custom: CustomLinks,
    /// True if the first event no longer waits for kinds that only refine it.
    has_waited: bool,
}

/// The watches of kinds that the cluster may define, and of their definitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CustomLinks {
    /// The kinds that are of interest.
    wanted: &'static [CustomKind],
    /// Kinds of these without which nothing goes on.
    awaited: &'static [CustomKind],
    definitions: Link,
    /// Links of the kinds that are defined.
    kinds: BTreeMap<CustomKind, Link>,
}

impl Default for CustomLinks {
    fn default() -> Self {
        Self::of(&CustomKind::ROUTES)
    }
}

impl CustomLinks {
    /// Returns the links of these kinds, of which nothing is known yet.
    pub(crate) fn of(wanted: &'static [CustomKind]) -> Self {
        Self {
            wanted,
            awaited: wanted,
            definitions: Link::default(),
            kinds: BTreeMap::new(),
        }
    }

    /// Returns the links of routes, and of workloads outside the cluster, which nothing waits for.
    pub(super) fn with_lookups() -> Self {
        Self {
            wanted: &CustomKind::WITH_LOOKUPS,
            ..Self::default()
        }
    }

    /// Takes note of the definitions, and returns the kinds that are not any more.
    pub(crate) fn define(&mut self, step: &Step<Definition>) -> BTreeSet<CustomKind> {
        let is_first = !self.definitions.is_complete;
        self.definitions.follow("CustomResourceDefinitions", step);
        let mut gone = BTreeSet::new();
        match step {
            Step::Listed(list) => {
                let defined = list.objects.iter();
                let defined = defined.filter_map(|definition| definition.kind);
                let defined: BTreeSet<CustomKind> = defined.collect();
                gone = self.defined().collect();
                gone.retain(|kind| !defined.contains(kind) && !list.keeps("", kind.definition()));
                defined.into_iter().for_each(|kind| self.add(kind));
                if is_first {
                    self.tell_missing();
                }
            }
            Step::Applied(definition) => {
                definition.kind.into_iter().for_each(|kind| self.add(kind));
            }
            Step::Deleted(definition) => gone.extend(definition.kind),
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {}
        }
        for kind in &gone {
            if self.kinds.remove(kind).is_some() {
                info!("the cluster has no {} any more", kind.plural());
            }
        }
        gone
    }

    fn add(&mut self, kind: CustomKind) {
        if !self.wanted.contains(&kind) {
            return;
        }
        self.kinds.entry(kind).or_insert_with(|| {
            info!("{} are followed", kind.plural());
            Link::default()
        });
    }

    fn tell_missing(&self) {
        let missing = self.wanted.iter();
        let missing = missing.filter(|kind| !self.kinds.contains_key(kind));
        let missing: Vec<&str> = missing.map(|kind| kind.plural()).collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            info!("the cluster does not define {missing}: they are followed as soon as it does");
        }
    }

    /// The kinds that are defined, in order.
    pub(crate) fn defined(&self) -> impl Iterator<Item = CustomKind> {
        self.kinds.keys().copied()
    }

    /// Takes note of a step of the watch of this kind. Returns whether the kind is defined: news that was on
    /// its way when it ceased to be does not count.
    pub(crate) fn follow<T>(&mut self, kind: CustomKind, step: &Step<T>) -> bool {
        let link = self.kinds.get_mut(&kind);
        let is_defined = link.is_some();
        if let Some(link) = link {
            link.follow(kind.plural(), step);
        }
        is_defined
    }

    /// Returns the links without which nothing goes on, with the names of their objects.
    fn named(&self) -> impl Iterator<Item = (&'static str, &Link)> {
        let definitions = ("CustomResourceDefinitions", &self.definitions);
        [definitions].into_iter().chain(self.of_kinds(true))
    }

    /// The others.
    fn unawaited(&self) -> impl Iterator<Item = (&'static str, &Link)> {
        self.of_kinds(false)
    }

    fn of_kinds(&self, are_awaited: bool) -> impl Iterator<Item = (&'static str, &Link)> {
        let kinds = self.kinds.iter();
        let kinds = kinds.filter(move |(kind, _)| self.awaited.contains(kind) == are_awaited);
        kinds.map(|(kind, link)| (kind.plural(), link))
    }

    /// Returns whether the first lists are there.
    pub(crate) fn are_complete(&self) -> bool {
        self.named().all(|(_, link)| link.is_complete)
    }
}

impl Links {
    /// Returns the links that the first event waits for, with the names of their objects.
    fn named(&self) -> impl Iterator<Item = (&'static str, &Link)> {
        let Self {
            services,
            endpoint_slices,
            service_cidrs,
            nodes,
            peers,
            pods: _,
            custom,
            has_waited: _,
        } = self;
        let four = [
            ("Services", services),
            ("EndpointSlices", endpoint_slices),
            ("ServiceCIDRs", service_cidrs),
            ("Nodes", nodes),
        ];
        let peers = peers.iter().map(|link| ("Nodes", link));
        four.into_iter().chain(peers).chain(custom.named())
    }

    fn all(&self) -> impl Iterator<Item = &Link> {
        self.named().map(|(_, link)| link)
    }

    /// Returns whether the first lists are there, or those that are not are waited for no longer.
    pub(super) fn are_complete(&self) -> bool {
        if self.has_waited {
            self.are_essentials_complete()
        } else {
            self.all().all(|link| link.is_complete)
        }
    }

    /// Returns whether the first lists are there of the kinds without which nothing can be translated.
    pub(super) fn are_essentials_complete(&self) -> bool {
        let essential = [&self.services, &self.endpoint_slices, &self.nodes];
        let mut essential = essential.into_iter().chain(&self.peers);
        essential.all(|link| link.is_complete)
    }

    /// Returns whether the first lists of pods and of machines outside the cluster are there.
    pub(super) fn are_workloads_complete(&self) -> bool {
        let pods = self.pods.as_ref().is_some_and(|link| link.is_complete);
        let are_defined = self.custom.definitions.is_complete;
        let mut machines = self.custom.unawaited();
        pods && are_defined && machines.all(|(_, link)| link.is_complete)
    }

    /// Has the first event wait no longer for kinds that only refine it. Returns those that are missing.
    pub(super) fn stop_waiting(&mut self) -> Vec<&'static str> {
        self.has_waited = true;
        let missing = self.named().filter(|(_, link)| !link.is_complete);
        missing.map(|(kind, _)| kind).collect()
    }

    /// The objects that cannot be read: how many, and the first of each kind.
    pub(super) fn unreadable(&self) -> (u64, Vec<UnreadableObject>) {
        let pods = self.pods.iter().map(|link| ("Pods", link));
        let all = self.named().chain(pods).chain(self.custom.unawaited());
        let (mut count, mut first) = (0, Vec::new());
        for (kind, link) in all {
            count += link.unreadable.count;
            let names = link.unreadable.first.iter().cloned();
            first.extend(names.map(|(name, reason)| UnreadableObject { kind, name, reason }));
        }
        (count, first)
    }

    /// Returns whether what is known is up to date.
    pub(super) fn are_up(&self) -> bool {
        self.all().all(Link::is_up)
    }

    /// Why it is not.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.all().find_map(|link| link.trouble.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_comes_later_is_no_longer_absent() {
        let mut link = Link::default();
        link.follow::<()>("Routes", &Step::Absent("404".to_owned()));
        assert!(link.is_absent && link.is_complete);
        link.follow::<()>("Routes", &Step::Alive);
        assert!(link.is_absent, "nothing was listed");
        link.follow::<()>("Routes", &Step::listed(Vec::new()));
        assert!(!link.is_absent && link.is_up());
    }
}
