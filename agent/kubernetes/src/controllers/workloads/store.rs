//! Known Services, workloads and slices, and the Services that a change concerns.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use shunt_model::ServiceId;

use crate::{
    controllers::workloads::{
        candidate::{Candidate, ZONE},
        service::{Labels, Service},
        slice::Slice,
        tracker::{Name, Tracker, name_of},
    },
    objects::{
        endpoint_slice::EndpointSlice,
        external_workload::{ExternalWorkload, Group, WorkloadKey},
    },
    watch::step::{List, Step},
};

/// The namespace whose Services are left alone unless that is asked for.
const SYSTEM: &str = "kube-system";

/// The workloads that a Service selects.
pub(super) type Selected = BTreeMap<Arc<WorkloadKey>, Arc<Candidate>>;

/// Everything that slices are made of, and the slices.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// True if the Services of [`SYSTEM`] are handled, too.
    takes_system: bool,
    services: BTreeMap<ServiceId, Arc<Service>>,
    workloads: BTreeMap<Arc<WorkloadKey>, Arc<Candidate>>,
    /// Workloads that a Service selects, once they were asked for.
    selected: HashMap<ServiceId, Selected>,
    slices: HashMap<ServiceId, BTreeMap<Box<str>, Arc<Slice>>>,
    /// The Service of each slice.
    places: HashMap<Name, ServiceId>,
    /// The slices that linkerd's controller has of a Service.
    linkerds: HashMap<ServiceId, BTreeSet<ServiceId>>,
    tracker: Tracker,
}

impl Store {
    pub(super) fn new(takes_system: bool) -> Self {
        Self {
            takes_system,
            ..Self::default()
        }
    }

    /// The Services, and those that are none any more but have slices.
    pub(super) fn all(&self) -> BTreeSet<ServiceId> {
        let known = self.services.keys().chain(self.slices.keys());
        known.filter(|id| self.handles(id)).cloned().collect()
    }

    fn handles(&self, id: &ServiceId) -> bool {
        self.takes_system || &*id.namespace != SYSTEM
    }

    pub(super) fn service(&self, id: &ServiceId) -> Option<&Arc<Service>> {
        self.services.get(id)
    }

    pub(super) fn workload(&self, key: &WorkloadKey) -> Option<&Arc<ExternalWorkload>> {
        self.workloads.get(key).map(|one| one.workload())
    }

    pub(super) fn workloads(&self) -> impl Iterator<Item = &Arc<ExternalWorkload>> {
        self.workloads.values().map(|one| one.workload())
    }

    /// Our slices of a Service.
    pub(super) fn slices(&self, id: &ServiceId) -> Vec<Arc<Slice>> {
        let known = self.slices.get(id).into_iter();
        known.flat_map(BTreeMap::values).map(Arc::clone).collect()
    }

    /// Returns the numbers of slices and endpoints.
    pub(super) fn count_slices(&self) -> (usize, usize) {
        let slices = self.slices.values().flat_map(BTreeMap::values);
        slices.fold((0, 0), |(slices, endpoints), slice| {
            (slices + 1, endpoints + slice.content.endpoints.len())
        })
    }

    /// The workloads that a Service selects.
    pub(super) fn selected(&mut self, service: &Service) -> &Selected {
        let Self {
            workloads,
            selected,
            ..
        } = self;
        selected.entry(service.id.clone()).or_insert_with(|| {
            let own = of_namespace(workloads, &service.id.namespace);
            let own = own.filter(|(_, one)| service.selects(&one.workload().labels));
            own.map(|(key, one)| (Arc::clone(key), Arc::clone(one)))
                .collect()
        })
    }

    /// The Services of a namespace that select these labels.
    fn selecting(&self, namespace: &str, labels: &Labels) -> BTreeSet<ServiceId> {
        let first = ServiceId::new(namespace, "");
        let found = self.services.range(first..);
        let found = found.take_while(|(id, _)| &*id.namespace == namespace);
        let found = found.filter(|(_, service)| service.has_endpoints() && service.selects(labels));
        found.map(|(id, _)| id.clone()).collect()
    }

    /// The Services that select a workload.
    pub(super) fn selecting_workload(&self, key: &WorkloadKey) -> BTreeSet<ServiceId> {
        let found = self.workload(key);
        let found = found.map(|one| self.selecting(&key.namespace, &one.labels));
        self.only_handled(found.unwrap_or_default())
    }

    /// Returns whether linkerd's own controller publishes the workloads of a Service.
    pub(super) fn is_linkerds(&self, id: &ServiceId) -> bool {
        self.linkerds.contains_key(id)
    }

    /// Returns whether what is known of a Service's slices is older than what was written.
    pub(super) fn is_out_of_date(&self, id: &ServiceId, now: Instant) -> bool {
        self.tracker.doubts(id, now)
    }

    fn only_handled(&self, mut concerned: BTreeSet<ServiceId>) -> BTreeSet<ServiceId> {
        concerned.retain(|id| self.handles(id));
        concerned
    }

    /// Takes note of Services, and returns those that this concerns.
    pub(super) fn take_services(&mut self, step: Step<Service>) -> BTreeSet<ServiceId> {
        let mut concerned = BTreeSet::new();
        match step {
            Step::Listed(list) => {
                let kept = self.services.iter();
                let kept = kept.filter(|(id, _)| list.keeps(&id.namespace, &id.name));
                let kept = kept.map(|(id, one)| (id.clone(), Arc::clone(one)));
                let listed = list.objects.iter();
                let listed = listed.map(|one| (one.id.clone(), Arc::new(one.clone())));
                let new: BTreeMap<ServiceId, Arc<Service>> = kept.chain(listed).collect();
                let old = std::mem::replace(&mut self.services, new);
                self.selected.clear();
                let gone = old.keys().filter(|id| !self.services.contains_key(*id));
                concerned.extend(gone.cloned());
                let new = self.services.iter();
                let new = new.filter(|(id, service)| old.get(*id) != Some(*service));
                concerned.extend(new.map(|(id, _)| id.clone()));
            }
            Step::Applied(service) => {
                let id = service.id.clone();
                if self.services.get(&id).is_none_or(|old| **old != service) {
                    self.selected.remove(&id);
                    concerned.insert(id.clone());
                }
                self.services.insert(id, Arc::new(service));
            }
            Step::Deleted(service) => {
                self.services.remove(&service.id);
                self.selected.remove(&service.id);
                concerned.insert(service.id);
            }
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {}
        }
        self.only_handled(concerned)
    }

    /// Takes note of workloads of a group, and returns the Services that this concerns. The keys of those
    /// that are new, other than before, or gone, come into `changed`.
    pub(super) fn take_workloads(
        &mut self,
        group: Group,
        step: Step<ExternalWorkload>,
        changed: &mut BTreeSet<Arc<WorkloadKey>>,
    ) -> BTreeSet<ServiceId> {
        let mut concerned = BTreeSet::new();
        match step {
            Step::Listed(list) => {
                let present = list.objects.iter().map(|one| &one.key);
                let present: BTreeSet<&Arc<WorkloadKey>> = present.collect();
                let known = self.workloads.keys().filter(|key| key.group == group);
                let gone = known.filter(|key| !present.contains(*key));
                let gone = gone.filter(|key| !list.keeps(&key.namespace, &key.name));
                let gone: Vec<Arc<WorkloadKey>> = gone.cloned().collect();
                for key in gone {
                    concerned.extend(self.remove_workload(key, changed));
                }
                for workload in list.objects {
                    concerned.extend(self.put_workload(workload, changed));
                }
            }
            Step::Applied(workload) => concerned = self.put_workload(workload, changed),
            Step::Deleted(workload) => concerned = self.remove_workload(workload.key, changed),
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {}
        }
        self.only_handled(concerned)
    }

    fn put_workload(
        &mut self,
        workload: ExternalWorkload,
        changed: &mut BTreeSet<Arc<WorkloadKey>>,
    ) -> BTreeSet<ServiceId> {
        let key = Arc::clone(&workload.key);
        let old = self.workloads.get(&key).cloned();
        let new = match &old {
            Some(old) if **old.workload() == workload => return BTreeSet::new(),
            Some(old) if !differ(old.workload(), &workload) => old.with(workload),
            _ => Candidate::new(workload),
        };
        let new = Arc::new(new);
        self.workloads.insert(Arc::clone(&key), Arc::clone(&new));
        changed.insert(key);
        self.replace(old.as_deref(), Some(&new))
    }

    fn remove_workload(
        &mut self,
        key: Arc<WorkloadKey>,
        changed: &mut BTreeSet<Arc<WorkloadKey>>,
    ) -> BTreeSet<ServiceId> {
        let old = self.workloads.remove(&key);
        if old.is_some() {
            changed.insert(key);
        }
        self.replace(old.as_deref(), None)
    }

    /// Has the Services that select a workload know it as it is now, and returns those that this concerns.
    fn replace(
        &mut self,
        old: Option<&Candidate>,
        new: Option<&Arc<Candidate>>,
    ) -> BTreeSet<ServiceId> {
        let selecting = |one: &Candidate| {
            let workload = one.workload();
            self.selecting(&workload.key.namespace, &workload.labels)
        };
        let before = old.map(selecting).unwrap_or_default();
        let after = new.map(|new| selecting(new)).unwrap_or_default();
        if let Some(old) = old {
            for id in before.difference(&after) {
                if let Some(selected) = self.selected.get_mut(id) {
                    selected.remove(&old.workload().key);
                }
            }
        }
        if let Some(new) = new {
            for id in &after {
                if let Some(selected) = self.selected.get_mut(id) {
                    selected.insert(Arc::clone(&new.workload().key), Arc::clone(new));
                }
            }
        }
        let is_same = old
            .zip(new)
            .is_some_and(|(old, new)| !differ(old.workload(), new.workload()));
        if is_same {
            &before ^ &after
        } else {
            &before | &after
        }
    }

    /// Takes note of our slices, and returns the Services that this concerns: what was written here and is
    /// reported back concerns none.
    pub(super) fn take_slices(&mut self, step: Step<Slice>, now: Instant) -> BTreeSet<ServiceId> {
        let concerned = match step {
            Step::Listed(list) => self.list_slices(list, now),
            Step::Applied(slice) => self.put_slice(slice),
            Step::Deleted(slice) => self.remove_slice(&slice),
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => BTreeSet::new(),
        };
        self.only_handled(concerned)
    }

    fn list_slices(&mut self, list: List<Slice>, now: Instant) -> BTreeSet<ServiceId> {
        let old = std::mem::take(&mut self.slices);
        self.places.clear();
        self.tracker.listed(&list.objects, now);
        let kept = old.values().flat_map(BTreeMap::values);
        let kept = kept.filter(|slice| list.keeps(&slice.service.namespace, &slice.name));
        for slice in kept {
            self.insert(Arc::clone(slice));
        }
        for slice in list.objects {
            self.insert(Arc::new(slice));
        }
        let known = old.keys().chain(self.slices.keys());
        let differs = |id: &&ServiceId| old.get(*id) != self.slices.get(*id);
        known.filter(differs).cloned().collect()
    }

    fn put_slice(&mut self, slice: Slice) -> BTreeSet<ServiceId> {
        let name = name_of(&slice);
        if self.tracker.is_deleted(&slice) {
            return BTreeSet::new();
        }
        self.tracker.heard(&name, &slice);
        let known = self.known(&name);
        if let Some(known) = known
            && known.uid == slice.uid
            && (slice.generation < known.generation || slice.version == known.version)
        {
            return BTreeSet::new();
        }
        let mut concerned = BTreeSet::from([slice.service.clone()]);
        if let Some(known) = known {
            concerned.insert(known.service.clone());
        }
        self.insert(Arc::new(slice));
        concerned
    }

    fn remove_slice(&mut self, slice: &Slice) -> BTreeSet<ServiceId> {
        let name = name_of(slice);
        let was_expected = self.tracker.heard_of_end(&name, slice);
        let Some(known) = self.known(&name).filter(|known| known.uid == slice.uid) else {
            return BTreeSet::new();
        };
        let service = known.service.clone();
        self.take_out(&name);
        if was_expected {
            BTreeSet::new()
        } else {
            BTreeSet::from([service])
        }
    }

    fn known(&self, name: &Name) -> Option<&Arc<Slice>> {
        self.slices.get(self.places.get(name)?)?.get(&name.1)
    }

    fn insert(&mut self, slice: Arc<Slice>) {
        let name = name_of(&slice);
        self.take_out(&name);
        let service = slice.service.clone();
        self.places.insert(name, service.clone());
        let own = self.slices.entry(service).or_default();
        own.insert(slice.name.clone(), slice);
    }

    fn take_out(&mut self, name: &Name) {
        let Some(service) = self.places.remove(name) else {
            return;
        };
        if let Some(slices) = self.slices.get_mut(&service) {
            slices.remove(&name.1);
            if slices.is_empty() {
                self.slices.remove(&service);
            }
        }
    }

    /// The server has confirmed that it has a slice in this form now.
    pub(super) fn written(&mut self, slice: Arc<Slice>, now: Instant) {
        let name = name_of(&slice);
        self.tracker.written(name.clone(), &slice, now);
        // The watch may have reported it, and what came after, before the answer was read.
        let known = self.known(&name).filter(|known| known.uid == slice.uid);
        if known.is_none_or(|known| known.generation <= slice.generation) {
            self.insert(slice);
        }
    }

    /// The server has confirmed that it does not have a slice any more.
    pub(super) fn deleted(&mut self, slice: &Slice, now: Instant) {
        let name = name_of(slice);
        let is_known = self
            .known(&name)
            .is_some_and(|known| known.uid == slice.uid);
        self.tracker.deleted(&name, is_known.then_some(slice), now);
        if is_known {
            self.take_out(&name);
        }
    }

    /// Takes note of slices of linkerd's controller, and returns the Services that this concerns.
    pub(super) fn take_linkerds(&mut self, step: Step<EndpointSlice>) -> BTreeSet<ServiceId> {
        let before: BTreeSet<ServiceId> = self.linkerds.keys().cloned().collect();
        let known = &mut self.linkerds;
        let forget = |known: &mut HashMap<ServiceId, BTreeSet<ServiceId>>, id: &ServiceId| {
            known.retain(|_, slices| {
                slices.remove(id);
                !slices.is_empty()
            });
        };
        let put = |known: &mut HashMap<ServiceId, BTreeSet<ServiceId>>, slice: EndpointSlice| {
            forget(known, &slice.id);
            if let Some(service) = slice.service {
                known.entry(service).or_default().insert(slice.id);
            }
        };
        match step {
            Step::Listed(list) => {
                let kept = |id: &ServiceId| list.keeps(&id.namespace, &id.name);
                known.retain(|_, slices| {
                    slices.retain(kept);
                    !slices.is_empty()
                });
                list.objects.into_iter().for_each(|slice| put(known, slice));
            }
            Step::Applied(slice) => put(known, slice),
            Step::Deleted(slice) => forget(known, &slice.id),
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {}
        }
        let after = self.linkerds.keys().cloned().collect();
        let concerned = &before ^ &after;
        self.only_handled(concerned)
    }

    /// Forgets what was written: another one may have written meanwhile.
    pub(super) fn forget_written(&mut self) {
        self.tracker = Tracker::default();
    }
}

fn of_namespace<'a>(
    workloads: &'a BTreeMap<Arc<WorkloadKey>, Arc<Candidate>>,
    namespace: &'a str,
) -> impl Iterator<Item = (&'a Arc<WorkloadKey>, &'a Arc<Candidate>)> {
    let first = WorkloadKey {
        namespace: namespace.into(),
        group: Group::Shunt,
        name: "".into(),
    };
    let found = workloads.range(Arc::new(first)..);
    found.take_while(move |(key, _)| &*key.namespace == namespace)
}

/// Returns whether endpoints of the one are others than those of the other. The order of addresses counts, that of
/// ports does not.
fn differ(old: &ExternalWorkload, new: &ExternalWorkload) -> bool {
    let sorted = |workload: &ExternalWorkload| {
        let body = workload.body.as_ref().ok()?;
        let mut ports = body.ports.clone();
        ports.sort();
        Some((body.ips.clone(), ports))
    };
    old.uid != new.uid
        || old.is_terminating != new.is_terminating
        || old.is_ready != new.is_ready
        || old.labels.get(ZONE) != new.labels.get(ZONE)
        || sorted(old) != sorted(new)
}
