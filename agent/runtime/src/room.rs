//! Choice of the services of a Resync that fit into the tables, where not all do.
//!
//! Namespaces share the tables. Each namespace first gets what fits into its equal part. Then the next service that is
//! admitted is one of the namespace that has the smallest share with it, counted by the table of which it has most
//! (dominant resource fairness, which is max-min fair in each table). Within a namespace the order of the Resync counts,
//! which is that of age where a source knows it. A service that does not fit is left out, and smaller ones behind it are
//! not.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    fmt,
    sync::Arc,
};

use shunt_common::{Cell, registry::Size};
use shunt_datapath::TableError;
use shunt_model::{Frontend, FrontendKey, ServiceId};

use crate::table_flags::advice;

/// The tables of one family that may be too small.
const SIZES: [Size; 4] = [
    Size::Frontends,
    Size::Slots,
    Size::Backends,
    Size::SourceRanges,
];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
/// The tables of IPv4, and then those of IPv6.
const TABLES: usize = SIZES.len() * FAMILIES.len();

/// A number of entries of each table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Entries([u64; TABLES]);

impl Entries {
    /// Returns the sizes of the tables: of those that are published to, of IPv4 and then of IPv6, and of the source
    /// ranges of each family.
    pub(super) fn of_tables(tables: impl Iterator<Item = u64>, source_ranges: [u64; 2]) -> Self {
        let mut all = [0; TABLES];
        let others = all.chunks_mut(SIZES.len()).zip(source_ranges);
        let places = others.flat_map(|(family, source_ranges)| match family {
            [published @ .., last] => {
                *last = source_ranges;
                published
            }
            [] => &mut [],
        });
        for (place, entries) in places.zip(tables) {
            *place = entries;
        }
        Self(all)
    }

    /// Returns so many entries of the tables of frontends, of IPv4 and of IPv6.
    pub(super) fn of_frontends(frontends: [u64; 2]) -> Self {
        let mut all = [0; TABLES];
        for (family, frontends) in all.chunks_mut(SIZES.len()).zip(frontends) {
            family[0] = frontends;
        }
        Self(all)
    }

    /// Returns the largest share that this is of any table, in billionths.
    fn share(&self, capacity: &Self) -> u64 {
        let pairs = self.0.iter().zip(capacity.0);
        let shares = pairs.map(|(used, capacity)| {
            used.saturating_mul(1_000_000_000)
                .checked_div(capacity)
                .unwrap_or(u64::MAX * u64::from(*used > 0))
        });
        shares.max().unwrap_or_default()
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|table| {
            self.0[table].saturating_add(other.0[table])
        }))
    }

    fn times(&self, count: u64) -> Self {
        Self(self.0.map(|entries| entries.saturating_mul(count)))
    }

    pub(super) fn minus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|table| {
            self.0[table].saturating_sub(other.0[table])
        }))
    }

    /// Returns the first table that has no room for these entries.
    pub(super) fn exceeds(&self, capacity: &Self) -> Option<usize> {
        (0..TABLES).find(|table| self.0[*table] > capacity.0[*table])
    }

    /// Returns the error that names the first table that has no room for these entries.
    pub(super) fn refusal(&self, capacity: &Self) -> Option<TableError> {
        self.refusal_beside(capacity, capacity)
    }

    /// Returns the error that names the first table in which fewer entries than these are free.
    pub(super) fn refusal_beside(&self, free: &Self, capacity: &Self) -> Option<TableError> {
        let table = self.exceeds(free)?;
        let [needed, free, capacity] = [self.0[table], free.0[table], capacity.0[table]]
            .map(|entries| u32::try_from(entries).unwrap_or(u32::MAX));
        Some(TableError::Full {
            table: SIZES[table % SIZES.len()],
            family: FAMILIES[table / SIZES.len()],
            needed,
            free,
            capacity,
        })
    }

    /// Returns so many percent of each.
    fn percent(&self, percent: u64) -> Self {
        Self(self.0.map(|entries| entries * percent / 100))
    }
}

/// Returns what services take of the tables, at most: all that each claims, even if others claim it too.
/// `is_translated`: the frontends that are in the tables.
pub(super) fn needs<'a>(
    services: impl Iterator<Item = (&'a Arc<ServiceId>, &'a [(FrontendKey, Frontend)])>,
    is_translated: impl Fn(&FrontendKey) -> bool,
) -> BTreeMap<Arc<ServiceId>, Entries> {
    let needs = services.map(|(id, frontends)| {
        let frontends = frontends.iter().filter(|(key, _)| is_translated(key));
        (Arc::clone(id), need(frontends))
    });
    needs.collect()
}

/// Returns what frontends take of the tables. What they share is counted once for each set. A set that is longer than
/// any frontend can hold fits nowhere.
pub(super) fn need<'a>(frontends: impl Iterator<Item = &'a (FrontendKey, Frontend)>) -> Entries {
    let Entries(mut needed) = Entries::default();
    let (mut sets, mut backends) = (HashSet::new(), HashSet::new());
    for (key, frontend) in frontends {
        let first = if key.address.is_ipv4() {
            0
        } else {
            SIZES.len()
        };
        needed[first + 3] += frontend.sources.len() as u64;
        let others = [&frontend.this_node, &frontend.with_draining];
        let others = others.into_iter().filter_map(Option::as_deref);
        for frontend in others.chain([frontend]) {
            let set = &frontend.backends;
            needed[first] += 1;
            if !sets.insert((first, Arc::as_ptr(set))) {
                continue;
            }
            let slots = set.slot_count();
            needed[first + 1] += if slots > Cell::MAX_COUNT as usize {
                u64::from(u32::MAX)
            } else {
                slots as u64
            };
            for backend in &set.backends {
                let port = (&set.service, &set.port, set.part);
                if backends.insert((first, port, backend.ip, backend.port)) {
                    needed[first + 2] += 1;
                }
            }
        }
    }
    Entries(needed)
}

/// The services' shares of the tables, and the namespace that has the largest share of one.
#[derive(Debug)]
pub(super) struct Shares {
    needs: BTreeMap<Arc<ServiceId>, Entries>,
    by_namespace: BTreeMap<Box<str>, Entries>,
    largest: Option<(u64, Box<str>)>,
}

impl Shares {
    /// The shares of services that [need](needs) so much.
    pub(super) fn of(needs: BTreeMap<Arc<ServiceId>, Entries>, capacity: &Entries) -> Self {
        let mut by_namespace = BTreeMap::<Box<str>, Entries>::new();
        for (id, needed) in &needs {
            let all = by_namespace.entry(id.namespace.clone()).or_default();
            *all = all.plus(needed);
        }
        let shares = by_namespace.iter();
        let shares = shares.map(|(namespace, all)| (all.share(capacity), namespace.clone()));
        Self {
            largest: shares.max(),
            needs,
            by_namespace,
        }
    }

    /// Returns the needs of each service.
    pub(super) const fn needs(&self) -> &BTreeMap<Arc<ServiceId>, Entries> {
        &self.needs
    }

    /// Returns true if the namespace of a service that needs so much has, with it, a smaller share than another one.
    pub(super) fn is_below(&self, id: &ServiceId, needed: &Entries, capacity: &Entries) -> bool {
        let Some((largest, namespace)) = &self.largest else {
            return false;
        };
        let all = self.by_namespace.get(&id.namespace);
        let all = all.copied().unwrap_or_default();
        let before = self.needs.get(id).copied().unwrap_or_default();
        let after = all.minus(&before).plus(needed);
        *namespace != id.namespace && after.share(capacity) < *largest
    }
}

/// Why a service was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoRoom {
    table: usize,
    needed: u64,
    capacity: u64,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            table,
            needed,
            capacity,
        } = self;
        let size = SIZES[table % SIZES.len()];
        let name = format_args!("{} ({})", size.name(), FAMILIES[table / SIZES.len()]);
        if needed > capacity {
            write!(
                f,
                "it needs {needed} entries of the {name} table, which has {capacity}"
            )?;
        } else {
            write!(
                f,
                "it needs {needed} of the {capacity} entries of the {name} table, and services of namespaces that have \
                 less, or older ones, have them"
            )?;
        }
        match advice(size) {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

/// The services of a namespace that wait for room, in their order, and the room that others of it have.
#[derive(Debug, Default)]
struct Namespace {
    waiting: VecDeque<(Arc<ServiceId>, Entries)>,
    has: Entries,
}

impl Namespace {
    /// Admits services for as long as the namespace has no more than its part of the tables, which is that of `count`
    /// namespaces.
    fn take_equal_part(&mut self, count: u64, limit: &Entries) {
        let Self { waiting, has } = self;
        waiting.retain(|(_, needed)| {
            let with = has.plus(needed);
            let is_more = with.times(count).exceeds(limit).is_some();
            if !is_more {
                *has = with;
            }
            is_more
        });
    }

    /// Returns the share that the namespace has with the next service.
    fn next_share(&self, capacity: &Entries) -> Option<u64> {
        let (_, needed) = self.waiting.front()?;
        Some(self.has.plus(needed).share(capacity))
    }
}

/// Returns the services that are left out where all may take so many `percent` of the tables. `services`: in the order
/// in which those of one namespace are served.
pub(super) fn left_out(
    services: impl IntoIterator<Item = Arc<ServiceId>>,
    needs: &BTreeMap<Arc<ServiceId>, Entries>,
    capacity: &Entries,
    percent: u64,
) -> BTreeMap<Arc<ServiceId>, NoRoom> {
    let limit = capacity.percent(percent);
    let no_room = |table: usize, needed: &Entries| NoRoom {
        table,
        needed: needed.0[table],
        capacity: capacity.0[table],
    };
    let mut left_out = BTreeMap::new();
    let mut namespaces: BTreeMap<Box<str>, Namespace> = BTreeMap::new();
    for id in services {
        // A service without a frontend takes nothing.
        let needed = needs.get(&id).copied().unwrap_or_default();
        if let Some(table) = needed.exceeds(&limit) {
            left_out.insert(id, no_room(table, &needed));
            continue;
        }
        let namespace = namespaces.entry(id.namespace.clone()).or_default();
        namespace.waiting.push_back((id, needed));
    }
    let count = namespaces.len() as u64;
    let mut used = Entries::default();
    let mut next = BTreeSet::new();
    for (name, namespace) in &mut namespaces {
        namespace.take_equal_part(count, &limit);
        used = used.plus(&namespace.has);
        next.extend(
            namespace
                .next_share(capacity)
                .map(|share| (share, name.clone())),
        );
    }
    while let Some((_, name)) = next.pop_first() {
        let Some(namespace) = namespaces.get_mut(&name) else {
            continue;
        };
        if let Some((id, needed)) = namespace.waiting.pop_front() {
            let with = used.plus(&needed);
            if let Some(table) = with.exceeds(&limit) {
                left_out.insert(id, no_room(table, &needed));
            } else {
                used = with;
                namespace.has = namespace.has.plus(&needed);
            }
        }
        next.extend(namespace.next_share(capacity).map(|share| (share, name)));
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(namespace: &str, name: &str) -> Arc<ServiceId> {
        Arc::new(ServiceId::new(namespace, name))
    }

    /// So many frontends of IPv4.
    fn of_frontends(frontends: u64) -> Entries {
        let mut entries = Entries::default();
        entries.0[0] = frontends;
        entries
    }

    #[test]
    fn a_refusal_names_what_is_free_and_what_there_is() {
        let capacity = Entries([100; TABLES]);
        let needed = Entries::of_frontends([30, 50]);
        let free = Entries::of_frontends([30, 49]);
        let refusal = needed.refusal_beside(&free, &capacity).unwrap();
        assert!(
            matches!(
                refusal,
                TableError::Full {
                    family: "IPv6",
                    needed: 50,
                    free: 49,
                    capacity: 100,
                    ..
                }
            ),
            "{refusal}"
        );
        assert!(needed.refusal(&capacity).is_none());
    }

    /// The names of those that are left out where 100 frontends of IPv4 fit. Each service with its frontends.
    fn names(services: &[(&str, &str, u64)]) -> Vec<String> {
        let ids = services
            .iter()
            .map(|(namespace, name, _)| id(namespace, name));
        let needs = services
            .iter()
            .map(|(namespace, name, frontends)| (id(namespace, name), of_frontends(*frontends)))
            .collect();
        let capacity = Entries([100; TABLES]);
        let left_out = left_out(ids, &needs, &capacity, 100);
        left_out.keys().map(ToString::to_string).collect()
    }

    #[test]
    fn the_sizes_of_the_tables_are_in_their_places() {
        let of_tables = Entries::of_tables([1, 2, 3, 5, 6, 7, 9].into_iter(), [4, 8]);
        assert_eq!(of_tables, Entries([1, 2, 3, 4, 5, 6, 7, 8]));
    }

    #[test]
    fn nobody_is_left_out_where_all_fit() {
        assert_eq!(
            names(&[("a", "1", 50), ("a", "2", 25), ("b", "1", 25)]),
            [""; 0]
        );
        assert_eq!(names(&[]), [""; 0]);
    }

    #[test]
    fn a_service_that_is_larger_than_a_table_costs_nobody_else() {
        let services = [("a", "large", 101), ("a", "web", 50), ("b", "web", 50)];
        assert_eq!(names(&services), ["a/large"]);
    }

    #[test]
    fn a_namespace_with_many_services_leaves_their_part_to_others() {
        let many = (0..30).map(|_| "").enumerate();
        let many: Vec<String> = many.map(|(number, _)| format!("{number:02}")).collect();
        let mut services: Vec<_> = many.iter().map(|name| ("a", name.as_str(), 5)).collect();
        services.extend([("b", "1", 20), ("b", "2", 20), ("c", "1", 10)]);
        let left_out = names(&services);
        assert!(
            left_out.iter().all(|name| name.starts_with("a/")),
            "{left_out:?}"
        );
        assert_eq!(left_out.len(), 20, "50 of 100 are left for a");
        assert_eq!(left_out[0], "a/10", "the first ones stay");
    }

    #[test]
    fn a_large_service_of_one_namespace_keeps_no_other_one_from_its_part() {
        // Each has a part of 25. The first service would have room if it were admitted first.
        let services = [
            ("a", "large", 80),
            ("b", "1", 15),
            ("b", "2", 10),
            ("c", "1", 25),
            ("d", "large", 90),
            ("d", "small", 25),
        ];
        assert_eq!(names(&services), ["a/large", "d/large"]);
        // It has what the others leave.
        let services = [("a", "large", 80), ("b", "1", 10), ("c", "1", 10)];
        assert_eq!(names(&services), [""; 0]);
    }

    #[test]
    fn only_a_namespace_that_has_less_than_another_finds_room() {
        let capacity = Entries([100; TABLES]);
        let services = [("a", "1", 40), ("a", "2", 40), ("b", "1", 20)];
        let needs =
            services.map(|(namespace, name, many)| (id(namespace, name), of_frontends(many)));
        let shares = Shares::of(needs.into(), &capacity);
        let is_below = |namespace, name, many| {
            shares.is_below(&id(namespace, name), &of_frontends(many), &capacity)
        };
        assert!(is_below("b", "2", 59) && !is_below("b", "2", 60));
        assert!(
            is_below("b", "1", 79) && !is_below("b", "1", 80),
            "in its place"
        );
        assert!(is_below("c", "1", 79) && !is_below("c", "1", 80));
        assert!(!is_below("a", "1", 1), "it has most");
        assert!(!Shares::of(BTreeMap::new(), &capacity).is_below(
            &id("a", "1"),
            &capacity,
            &capacity
        ));
    }

    #[test]
    fn in_one_namespace_the_order_counts_and_smaller_ones_fill_the_rest() {
        let services = [("a", "1", 60), ("a", "2", 50), ("a", "3", 40)];
        assert_eq!(names(&services), ["a/2"]);
    }

    #[test]
    fn a_part_of_the_tables_is_shared_and_the_reason_names_all_of_it() {
        let needs = BTreeMap::from([(id("a", "1"), of_frontends(60))]);
        let of = |percent| left_out([id("a", "1")], &needs, &Entries([100; TABLES]), percent);
        assert!(of(100).is_empty() && of(75).is_empty());
        let reason = of(50).values().next().map(ToString::to_string);
        let expected = "it needs 60 of the 100 entries of the frontends (IPv4) table, ";
        assert!(reason.is_some_and(|reason| reason.starts_with(expected)));
        assert_eq!(of(50), of(40), "the same is not tried twice");
    }

    #[test]
    fn a_table_without_entries_takes_nothing() {
        let needs = BTreeMap::from([(id("a", "1"), of_frontends(1))]);
        let left_out = left_out(
            [id("a", "1"), id("a", "2")],
            &needs,
            &Entries::default(),
            100,
        );
        let reason = left_out.values().next().map(ToString::to_string);
        let expected = "it needs 1 entries of the frontends (IPv4) table, which has 0; the next start with a larger \
                        --max-frontends makes room, and interrupts nothing";
        assert_eq!((left_out.len(), reason.as_deref()), (1, Some(expected)));
    }
}
