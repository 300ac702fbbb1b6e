//! From a catalog's news to events, one at a time of each service. Pure of any waiting: the caller passes in the news
//! and the outcome of each event.

mod entry;
mod kept;
mod outcome;
mod tell;
mod translated;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    net::IpAddr,
    sync::Arc,
    time::Instant,
};

use foldhash::quality::RandomState;
use shunt_model::{RendererEvent, Service, ServiceId};

use crate::instances::{
    engine::entry::{Claim, Entry},
    frontend::{Frontend, Vip},
    instance::Instance,
    place::Place,
    query::Query,
    tier::{Datacenter, Tier},
};

/// An event for the renderer, with the state to remember when it took effect.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) event: RendererEvent,
    pub(crate) about: About,
    /// Services without endpoints: nothing is known of these, and the event does not decide about them. Whatever the
    /// kernel has at their addresses is to stay.
    pub(crate) undecided: Vec<Service>,
}

/// Subject of an event.
#[derive(Debug)]
pub(crate) enum About {
    /// Everything, with the marks of all services.
    All {
        marks: HashMap<Arc<ServiceId>, Mark>,
        node_ips: BTreeSet<IpAddr>,
    },
    /// This node's addresses.
    NodeIps(BTreeSet<IpAddr>),
    /// A service, with its mark if there is one now.
    Service {
        /// Index of the frontend.
        entry: usize,
        mark: Option<u64>,
    },
}

/// Mark by which a service is known again; `None`: the renderer got something that failed.
pub(crate) type Mark = Option<u64>;

/// Knowledge about a query.
#[derive(Debug)]
enum Known {
    /// These are its instances.
    Instances(Arc<[Instance]>),
    /// They may not be read, and never were.
    Denied,
}

/// All that is known, and the part of it that the renderer got.
#[derive(Debug)]
pub(crate) struct Engine {
    entries: Vec<Entry>,
    /// Frontends that need the result of a query.
    users: BTreeMap<Query, Vec<usize>>,
    known: HashMap<Query, Known>,
    /// Number of known instances.
    count: u64,
    place: Option<Place>,
    node_ips: BTreeSet<IpAddr>,
    told_node_ips: BTreeSet<IpAddr>,
    /// Frontends that have changed, in the order of their first change.
    pending: VecDeque<usize>,
    /// Frontends of which an event failed, to be tried again.
    failed: BTreeSet<usize>,
    /// True if everything has to be sent again, once it is tried again.
    has_failed: bool,
    /// The frontends whose event is under way, each alone.
    under_way: HashSet<usize>,
    /// True if an event about more than one service is under way, beside which nothing else is sent.
    is_busy: bool,
    told: HashMap<Arc<ServiceId>, Mark>,
    is_synced: bool,
    /// Time at which the first event could have been sent.
    began: Option<Instant>,
    marks: RandomState,
    /// Problems of each service.
    problems: BTreeMap<String, Vec<String>>,
    /// True if instances have agreed on an address that was not read yet.
    has_agreed: bool,
}

impl Engine {
    /// Knows nothing but the frontends that there are to be.
    pub(crate) fn new(frontends: Vec<Frontend>) -> Self {
        let entries: Vec<Entry> = frontends.into_iter().map(Entry::new).collect();
        Self {
            users: users(&entries),
            began: None,
            entries,
            known: HashMap::new(),
            count: 0,
            place: None,
            node_ips: BTreeSet::new(),
            told_node_ips: BTreeSet::new(),
            pending: VecDeque::new(),
            failed: BTreeSet::new(),
            has_failed: false,
            under_way: HashSet::new(),
            is_busy: false,
            told: HashMap::new(),
            is_synced: false,
            marks: RandomState::default(),
            problems: BTreeMap::new(),
            has_agreed: false,
        }
    }

    /// Returns all needed queries, each once.
    pub(crate) fn queries(&self) -> impl Iterator<Item = &Query> {
        self.users.keys()
    }

    /// Returns whether this has to be asked for.
    pub(crate) fn wants(&self, query: &Query) -> bool {
        self.users.contains_key(query)
    }

    /// The frontends that are offered to other datacenters.
    pub(crate) fn exported(&self) -> impl Iterator<Item = &Frontend> {
        let frontends = self.entries.iter().map(|entry| &entry.frontend);
        frontends.filter(|frontend| frontend.export.is_some())
    }

    /// The frontends whose address is to be claimed.
    pub(crate) fn claimed(&self) -> impl Iterator<Item = &Frontend> {
        let frontends = self.entries.iter().map(|entry| &entry.frontend);
        frontends.filter(|frontend| matches!(frontend.vip, Vip::Claimed(_)))
    }

    /// Returns the frontends that get their tiers from outside.
    pub(crate) fn tiered(&self) -> impl Iterator<Item = &Frontend> {
        let frontends = self.entries.iter().map(|entry| &entry.frontend);
        frontends.filter(|frontend| !frontend.has_fixed_tiers())
    }

    /// Sets the tiers of a frontend. Returns whether other [queries](Self::queries) are needed than before. Results
    /// that are no longer needed are forgotten. The frontend stays as it is until enough is known of these tiers.
    pub(crate) fn set_tiers(&mut self, id: &ServiceId, tiers: Vec<Tier>, now: Instant) -> bool {
        let mut entries = self.entries.iter_mut();
        let Some(index) = entries.position(|entry| *entry.frontend.id == *id) else {
            return false;
        };
        if !self.entries[index].set_tiers(tiers, now) {
            return false;
        }
        let users = users(&self.entries);
        let is_other = !users.keys().eq(self.users.keys());
        self.users = users;
        let (wanted, count) = (&self.users, &mut self.count);
        self.known.retain(|query, known| {
            let is_wanted = wanted.contains_key(query);
            if let (false, Known::Instances(instances)) = (is_wanted, known) {
                *count -= instances.len() as u64;
            }
            is_wanted
        });
        self.change(index);
        is_other
    }

    /// This is to be shown of a frontend's tiers.
    pub(crate) fn set_notes(&mut self, id: &ServiceId, notes: Vec<String>) {
        let mut entries = self.entries.iter();
        if let Some(index) = entries.position(|entry| *entry.frontend.id == *id)
            && self.entries[index].notes != notes
        {
            self.entries[index].notes = notes;
            self.change(index);
        }
    }

    /// Returns whether there is anything to ask of other datacenters.
    pub(crate) fn has_other_datacenters(&self) -> bool {
        let mut queries = self.users.keys();
        queries.any(|query| query.datacenter != Datacenter::Own)
    }

    /// The frontends whose new connections go to another datacenter than the most wanted one, and to which.
    pub(crate) fn failed_over(&self) -> impl Iterator<Item = (&ServiceId, &str)> {
        self.entries.iter().filter_map(|entry| {
            let (first, _) = entry.tiers.first()?;
            match &entry.serving {
                Some(serving @ Datacenter::Other(name)) if *serving != first.datacenter => {
                    Some((&*entry.frontend.id, &**name))
                }
                _ => None,
            }
        })
    }

    /// The agent is here, and its node has these addresses.
    pub(crate) fn set_place(&mut self, place: Place, node_ips: BTreeSet<IpAddr>) {
        self.node_ips = node_ips;
        if self.place.as_ref() != Some(&place) {
            self.place = Some(place);
            for entry in 0..self.entries.len() {
                self.change(entry);
            }
        }
    }

    /// Sets all instances of a query. Returns whether anything is new.
    pub(crate) fn set_instances(&mut self, query: &Query, instances: Vec<Instance>) -> bool {
        if !self.users.contains_key(query) {
            // It was on its way when the query was no longer wanted.
            return false;
        }
        if let Some(Known::Instances(known)) = self.known.get(query)
            && **known == *instances
        {
            return false;
        }
        self.count += instances.len() as u64;
        let known = Known::Instances(instances.into());
        if let Some(Known::Instances(before)) = self.known.insert(query.clone(), known) {
            self.count -= before.len() as u64;
        }
        for entry in self.users.get(query).cloned().unwrap_or_default() {
            self.change(entry);
        }
        true
    }

    /// The instances that were last known of a query.
    pub(crate) fn instances(&self, query: &Query) -> Option<&Arc<[Instance]>> {
        match self.known.get(query)? {
            Known::Instances(instances) => Some(instances),
            Known::Denied => None,
        }
    }

    /// A query may not be asked. What is known of it stays.
    pub(crate) fn deny(&mut self, query: &Query) {
        if !self.users.contains_key(query) {
            return;
        }
        let known = self.known.entry(query.clone());
        known.or_insert(Known::Denied);
    }

    /// The address of a frontend is claimed, or why it is not. What was claimed stays.
    pub(crate) fn set_claim(&mut self, id: &ServiceId, claim: Result<IpAddr, String>) {
        let mut entries = self.entries.iter_mut();
        if let Some(index) = entries.position(|entry| *entry.frontend.id == *id) {
            let entry = &mut self.entries[index];
            match (claim, &entry.claim) {
                (Ok(ip), _) => entry.claim = Claim::At(ip),
                (Err(_), Claim::At(_)) => return,
                (Err(reason), Claim::Open | Claim::Refused(_)) => {
                    entry.claim = Claim::Refused(reason);
                }
            }
            self.change(index);
        }
    }

    /// Returns the problems of each service that has any.
    pub(crate) const fn problems(&self) -> &BTreeMap<String, Vec<String>> {
        &self.problems
    }

    /// Returns whether the renderer got everything once.
    pub(crate) const fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// Returns whether something is waited for that is skipped when it takes too long.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.is_synced || self.entries.iter().any(Entry::waits)
    }

    /// Returns the number of services that have changed, or could not be changed, and wait.
    pub(crate) fn waiting(&self) -> usize {
        let pending = self.pending.iter().chain(&self.failed);
        pending.collect::<BTreeSet<_>>().len()
    }

    /// Returns the number of services that could not be changed, and are tried again.
    pub(crate) fn refused(&self) -> usize {
        self.failed.len()
    }

    /// Returns whether a service has changed and the event was not sent.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns the number of known instances, those of each query for itself.
    pub(crate) const fn count_instances(&self) -> u64 {
        self.count
    }

    /// A frontend may be another one than before.
    fn change(&mut self, entry: usize) {
        if !self.entries[entry].is_pending {
            self.entries[entry].is_pending = true;
            self.pending.push_back(entry);
        }
    }
}

/// Returns the frontends that need the result of each query.
fn users(entries: &[Entry]) -> BTreeMap<Query, Vec<usize>> {
    let mut users = BTreeMap::<Query, Vec<usize>>::new();
    for (index, entry) in entries.iter().enumerate() {
        for query in entry.queries() {
            let all = users.entry(query).or_default();
            if all.last() != Some(&index) {
                all.push(index);
            }
        }
    }
    users
}
