//! The indexes of service ports in the tables of what is counted.
//!
//! An index is given to another service port only after a grace period, so no packet is on its way that
//! counts for the one before. Connections remember service ports for longer than that: each use of an
//! index has a number of its own, and who remembers another one counts nowhere. Of the indexes that are
//! free, that is taken which has been free for the longest, so a number comes back only after 2^15 uses of
//! its index.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher as _, RandomState},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use shunt_common::{ServiceNumber, registry};
use tracing::warn;

use shunt_model::{BackendSet, ServiceId};

use crate::{
    maps::{
        memory_services::MemoryServices,
        service_table::{FrontendsOf, ServiceCounts, ServiceTable},
        table_use::TableUse,
    },
    publish::group::GroupKey,
};

/// Counts of a service port.
#[derive(Debug, Clone)]
pub struct CountedService {
    /// The service.
    pub service: Arc<ServiceId>,
    /// The name of its port.
    pub port: Arc<str>,
    /// All frontends of it together.
    pub counts: ServiceCounts,
}

/// The service ports that are counted.
#[derive(Debug)]
pub struct Services(Mutex<Directory>);

/// The same for the frontends of one family.
#[derive(Debug, Clone)]
pub(crate) struct FamilyServices {
    services: Arc<Services>,
    family: FrontendsOf,
}

/// A service port that has an index.
#[derive(Debug)]
struct Known {
    number: ServiceNumber,
    /// True if frontends of IPv4 use it, and of IPv6.
    used: [bool; 2],
}

#[derive(Debug)]
struct Directory {
    table: Box<dyn ServiceTable>,
    known: HashMap<GroupKey, Known>,
    /// Numbers that an earlier agent left, by fingerprint.
    found: HashMap<u64, ServiceNumber>,
    /// Indexes that can be given out, that first which has been free for the longest.
    free: VecDeque<u32>,
    /// Indexes that packets may still count at.
    retired: Vec<u32>,
    /// Generation of the first use of an index. By chance: connections may remember numbers of tables that
    /// were removed.
    first_generation: u32,
    /// True if it was logged that there is no room.
    is_full: bool,
}

impl Services {
    /// Returns the service ports that the tables have.
    pub(crate) fn of(table: impl ServiceTable + 'static) -> Arc<Self> {
        let mut found = HashMap::new();
        let mut free = VecDeque::new();
        for index in 1..table.capacity().min(ServiceNumber::LIMIT) {
            let entry = table.entry(index);
            let is_taken = entry.fingerprint != 0
                && entry.number.index() == index
                && !found.contains_key(&entry.fingerprint);
            if is_taken {
                found.insert(entry.fingerprint, entry.number);
            } else {
                free.push_back(index);
            }
        }
        Arc::new(Self(Mutex::new(Directory {
            table: Box::new(table),
            known: HashMap::new(),
            found,
            free,
            retired: Vec::new(),
            first_generation: RandomState::new().hash_one(0) as u32,
            is_full: false,
        })))
    }

    /// None yet, in tables in memory.
    pub(crate) fn in_memory() -> Arc<Self> {
        Self::of(MemoryServices::new(256))
    }

    /// The same for frontends of this family.
    pub(crate) fn of_family(self: &Arc<Self>, family: FrontendsOf) -> FamilyServices {
        FamilyServices {
            services: Arc::clone(self),
            family,
        }
    }

    /// Returns the counts of each service port, sorted by name. One that ends meanwhile may be left out.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub fn read(&self) -> io::Result<Vec<CountedService>> {
        // Held for this alone: each of them is locked for below.
        let mut listed: Vec<_> = {
            let directory = self.lock();
            let known = directory.known.iter();
            known
                .map(|(key, known)| (key.clone(), known.number))
                .collect()
        };
        listed.sort_unstable_by(|(a, _), (b, _)| {
            (a.service(), a.port()).cmp(&(b.service(), b.port()))
        });
        let mut counted = Vec::with_capacity(listed.len());
        for (key, number) in listed {
            // Not for all of them at once: the event loop may have something to do.
            let directory = self.lock();
            if directory.known.get(&key).map(|known| known.number) == Some(number) {
                counted.push(CountedService {
                    service: Arc::clone(key.service()),
                    port: Arc::clone(key.port()),
                    counts: directory.table.counts(number.index())?,
                });
            }
        }
        Ok(counted)
    }

    /// Returns the counts of the service port that owns `set`; `None` if it is not counted.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub fn counts_of(&self, set: &BackendSet) -> io::Result<Option<ServiceCounts>> {
        let directory = self.lock();
        let known = directory.known.get(&GroupKey::of(set).whole());
        known
            .map(|known| directory.table.counts(known.number.index()))
            .transpose()
    }

    /// The numbers of the service ports, each with the service and the port's name.
    pub fn names(&self) -> Vec<(ServiceNumber, Arc<ServiceId>, Arc<str>)> {
        let directory = self.lock();
        let known = directory.known.iter();
        known
            .map(|(key, known)| {
                (
                    known.number,
                    Arc::clone(key.service()),
                    Arc::clone(key.port()),
                )
            })
            .collect()
    }

    /// Returns the number of indexes that are taken, also by service ports that have just ended.
    pub(crate) fn table_use(&self) -> TableUse {
        let directory = self.lock();
        let capacity = directory.table.capacity().min(ServiceNumber::LIMIT);
        let capacity = capacity.saturating_sub(1);
        TableUse {
            name: registry::SERVICES.shown,
            used: capacity.saturating_sub(directory.free.len() as u32),
            retired: 0,
            capacity,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Directory> {
        // Nothing in it is half done when a thread panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FamilyServices {
    const fn place(&self) -> usize {
        match self.family {
            FrontendsOf::V4 => 0,
            FrontendsOf::V6 => 1,
        }
    }

    /// The number of the service port: the one that it has, or a new one; that of none if there is no
    /// room for it.
    pub(crate) fn claim(&self, key: &GroupKey) -> ServiceNumber {
        self.services.lock().claim(&key.whole(), self.place())
    }

    /// No frontend of the family is of this service port any more.
    pub(crate) fn release(&self, key: &GroupKey) {
        self.services.lock().release(&key.whole(), self.place());
    }

    /// After a Resync: frontends of the family are of those service ports that are `kept`, and nothing else
    /// that an earlier agent has left is wanted.
    pub(crate) fn settle(&self, kept: impl Fn(&GroupKey) -> bool) {
        let mut directory = self.services.lock();
        for key in directory.others(self.place(), kept) {
            directory.release(&key, self.place());
        }
        for number in std::mem::take(&mut directory.found).into_values() {
            directory.retire(number.index());
        }
    }

    /// After a Resync that failed: what is not `kept` is as it was found, until the next one.
    pub(crate) fn unsettle(&self, kept: impl Fn(&GroupKey) -> bool) {
        let mut directory = self.services.lock();
        for key in directory.others(self.place(), kept) {
            directory.put_back(&key, self.place());
        }
    }

    /// Frees the indexes that were released before the last grace period.
    pub(crate) fn free_retired(&self) {
        let mut directory = self.services.lock();
        let Directory { free, retired, .. } = &mut *directory;
        free.extend(retired.drain(..));
    }

    /// Returns whether [`Self::free_retired`] has anything to do.
    pub(crate) fn has_retired(&self) -> bool {
        !self.services.lock().retired.is_empty()
    }

    /// Has the frontend with this index be of the service port with this number.
    pub(crate) fn assign(&self, frontend: u32, number: ServiceNumber) {
        let mut directory = self.services.lock();
        if directory.table.of_frontend(self.family, frontend) != number {
            directory
                .table
                .set_of_frontend(self.family, frontend, number);
        }
    }
}

impl Directory {
    fn claim(&mut self, key: &GroupKey, place: usize) -> ServiceNumber {
        if let Some(known) = self.known.get_mut(key) {
            known.used[place] = true;
            return known.number;
        }
        let fingerprint = key.identity();
        let (number, begun) = match self.found.remove(&fingerprint) {
            Some(number) => (number, self.table.resume(number)),
            None => {
                let Some(number) = self.new_number() else {
                    return ServiceNumber::default();
                };
                (number, self.table.begin(number, fingerprint))
            }
        };
        if let Err(error) = begun {
            warn!(%error, "a service port is not counted");
            self.retire(number.index());
            return ServiceNumber::default();
        }
        let mut used = [false; 2];
        used[place] = true;
        self.known.insert(key.clone(), Known { number, used });
        number
    }

    fn new_number(&mut self) -> Option<ServiceNumber> {
        let Some(index) = self.free.pop_front() else {
            if !self.is_full {
                warn!(
                    "the services table is full: further service ports are translated, and not \
                     counted by themselves"
                );
            }
            self.is_full = true;
            return None;
        };
        let before = self.table.entry(index).number;
        let number = if before == ServiceNumber::default() {
            ServiceNumber::new(index, self.first_generation)
        } else {
            ServiceNumber::new(index, before.generation()).next()
        };
        Some(number)
    }

    fn release(&mut self, key: &GroupKey, place: usize) {
        if let Some(number) = self.forget(key, place) {
            self.retire(number.index());
        }
    }

    fn put_back(&mut self, key: &GroupKey, place: usize) {
        if let Some(number) = self.forget(key, place) {
            self.found.insert(key.identity(), number);
        }
    }

    /// Frontends of one family do not use the service port. Returns its number if no family does.
    fn forget(&mut self, key: &GroupKey, place: usize) -> Option<ServiceNumber> {
        let known = self.known.get_mut(key)?;
        known.used[place] = false;
        if known.used.contains(&true) {
            return None;
        }
        Some(self.known.remove(key)?.number)
    }

    fn retire(&mut self, index: u32) {
        if let Err(error) = self.table.end(index) {
            warn!(%error, "a service port that is gone goes on being counted");
        }
        self.retired.push(index);
        self.is_full = false;
    }

    /// The service ports that frontends of one family use, but for those that are `kept`.
    fn others(&self, place: usize, kept: impl Fn(&GroupKey) -> bool) -> Vec<GroupKey> {
        let used = self.known.iter().filter(|(_, known)| known.used[place]);
        let others = used.map(|(key, _)| key).filter(|key| !kept(key));
        others.cloned().collect()
    }
}

#[cfg(test)]
mod tests;
