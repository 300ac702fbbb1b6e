//! The publishers of both families: a change of frontends is published in both or in neither.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    iter,
    sync::Arc,
};

use shunt_common::{FrontendKey, V4, V6, registry::Size};
use tracing::warn;

use shunt_model::{Changes, Frontend};

use crate::{
    error::TableError,
    maps::{
        families::Families,
        family::{FromIp, table_key},
        service_table::FrontendsOf,
        table_use::TableUse,
        tables::Tables,
    },
    publish::{
        maglev::{MaglevUse, ReadyTables, Recipe},
        publisher::{Publisher, change::Change},
        read_back::{
            self, LiveFrontend, Reader,
            key::LiveKey,
            sources::{SourceRanges, source_ranges},
        },
        services::Services,
    },
};

/// Puts the frontends of both families into their tables.
#[derive(Debug)]
pub struct DualPublisher<A, B> {
    v4: Publisher<V4, A>,
    v6: Publisher<V6, B>,
    families: Families,
    services: Arc<Services>,
}

impl<A: Tables<V4>, B: Tables<V6>> DualPublisher<A, B> {
    /// Publishers of no frontends yet. Tables that are not empty need a [resync](Self::resync)
    /// first. Frontends of other families than these are left out.
    pub fn new(v4: A, v6: B, families: Families) -> Self {
        Self::counting(v4, v6, families, Services::in_memory())
    }

    /// As [`Self::new`], with the service ports counted here.
    pub(crate) fn counting(v4: A, v6: B, families: Families, services: Arc<Services>) -> Self {
        Self {
            v4: Publisher::counting(v4, services.of_family(FrontendsOf::V4)),
            v6: Publisher::counting(v6, services.of_family(FrontendsOf::V6)),
            families,
            services,
        }
    }

    /// Sets the number of entries that the tables of source ranges have room for, of IPv4 and of IPv6.
    pub(crate) const fn set_source_range_capacity(&mut self, [v4, v6]: [u32; 2]) {
        self.v4.set_source_range_capacity(v4);
        self.v6.set_source_range_capacity(v6);
    }

    /// The number of entries that the tables of source ranges have room for, of IPv4 and of IPv6.
    pub const fn source_range_capacity(&self) -> [u32; 2] {
        [
            self.v4.source_range_capacity(),
            self.v6.source_range_capacity(),
        ]
    }

    /// The service ports that are counted.
    pub const fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// The families whose frontends are published.
    pub const fn families(&self) -> Families {
        self.families
    }

    /// Publishes `changes`, and returns the number of writes.
    ///
    /// All of it or nothing: first each family's tables take what no packet looks at, slices,
    /// backends, source ranges, and reserve their room; then each takes its new frontends; and
    /// only when both have, the rest follows, which cannot fail. If the second family has no room,
    /// the first one has changed nothing; if the kernel refuses its new frontends, those of the
    /// first are taken out again.
    ///
    /// # Errors
    ///
    /// If a table has no room or the kernel refuses a new frontend. Nothing is changed then.
    pub fn publish(&mut self, changes: &Changes) -> Result<u64, TableError> {
        let before = self.writes();
        let families = self.families;
        let (v4, v6) = (
            OfFamily::changes(changes, families),
            OfFamily::changes(changes, families),
        );
        if self.v4.is_blocked(&v4.wanted) || self.v6.is_blocked(&v6.wanted) {
            self.free()?;
        }
        let mut published = self.publish_once(&v4, &v6);
        if matches!(published, Err(TableError::Full { .. })) && self.has_retired() {
            self.free()?;
            published = self.publish_once(&v4, &v6);
        }
        // Tables of a family give way once as far as the change needs, and then all of them.
        let mut tried = HashSet::new();
        while let Err(TableError::Full {
            table: Size::Slots,
            family,
            ..
        }) = &published
        {
            let family = *family;
            let all = tried.contains(family);
            let ports = self.of_family(
                family,
                |own| own.give_way(&v4.wanted, all),
                |own| own.give_way(&v6.wanted, all),
            );
            if ports.is_empty() {
                break;
            }
            log_given_up(family, &ports);
            tried.insert(family);
            self.free()?;
            published = self.publish_once(&v4, &v6);
        }
        if matches!(published, Err(TableError::Full { .. }))
            && (has_tables(&v4.wanted) || has_tables(&v6.wanted))
        {
            self.free()?;
            published = self.without_new_tables(|own| own.publish_once(&v4, &v6));
        }
        published?;
        Ok(self.writes() - before)
    }

    /// Does one of these with the publisher of the family of this name.
    fn of_family<R>(
        &mut self,
        family: &str,
        v4: impl FnOnce(&mut Publisher<V4, A>) -> R,
        v6: impl FnOnce(&mut Publisher<V6, B>) -> R,
    ) -> R {
        if family == V4::NAME {
            v4(&mut self.v4)
        } else {
            v6(&mut self.v6)
        }
    }

    /// Does something for which no new Maglev tables are made.
    fn without_new_tables<R>(&mut self, action: impl FnOnce(&mut Self) -> R) -> R {
        let set = |own: &mut Self, without| {
            own.v4.set_without_tables(without);
            own.v6.set_without_tables(without);
        };
        set(self, true);
        let result = action(self);
        set(self, false);
        result
    }

    /// As [`Self::publish`], with Maglev tables that were made before: these are not made for the change.
    /// Those that it does not need are left out.
    ///
    /// # Errors
    ///
    /// As [`Self::publish`].
    pub fn publish_with(
        &mut self,
        changes: &Changes,
        tables: &ReadyTables,
    ) -> Result<u64, TableError> {
        self.set_ready(tables);
        let published = self.publish(changes);
        self.set_ready(&ReadyTables::default());
        published
    }

    fn set_ready(&mut self, tables: &ReadyTables) {
        self.v4.set_ready(tables.clone());
        self.v6.set_ready(tables.clone());
    }

    /// Returns the recipes of the Maglev tables that publishing `changes` has to make, where there is room
    /// for them.
    pub fn lacking_tables(&self, changes: &Changes) -> HashSet<Recipe> {
        let families = self.families;
        let (v4, v6) = (
            OfFamily::changes(changes, families),
            OfFamily::changes(changes, families),
        );
        &lacking(&self.v4, &v4.wanted) | &lacking(&self.v6, &v6.wanted)
    }

    fn publish_once(
        &mut self,
        v4: &OfFamily<'_, V4>,
        v6: &OfFamily<'_, V6>,
    ) -> Result<(), TableError> {
        let v4 = self.v4.stage(&v4.wanted, &v4.removed)?;
        let v6 = self.v6.stage(&v6.wanted, &v6.removed)?;
        carry_out(v4, v6)
    }

    /// Makes `snapshot` all there is, whatever the tables hold: they are read back, and what is
    /// right in them is not touched. Returns the number of writes. All of it or nothing, as
    /// [`Self::publish`] does.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read or do not take it; no packet sees a change then.
    pub fn resync(
        &mut self,
        snapshot: &[(shunt_model::FrontendKey, Frontend)],
    ) -> Result<u64, TableError> {
        let before = self.writes();
        // Also for packets that saw what an agent replaced that was killed just now.
        self.wait_and_free()?;
        let (v4, v6) = (
            entries(snapshot.iter(), self.families),
            entries(snapshot.iter(), self.families),
        );
        let mut resynced = self.resync_once(&v4, &v6);
        let mut tried = HashSet::new();
        while let Err(TableError::Full {
            table: Size::Slots,
            family,
            ..
        }) = &resynced
        {
            let family = *family;
            let gives_way = self.of_family(
                family,
                |own| own.give_all_way(&v4),
                |own| own.give_all_way(&v6),
            );
            if !gives_way? || !tried.insert(family) {
                break;
            }
            warn!(
                "{family}: all Maglev tables give way, as services find no slots beside them; those for which \
                 there is room then are made again (--max-slots)"
            );
            self.wait_and_free()?;
            resynced = self.resync_once(&v4, &v6);
        }
        if matches!(resynced, Err(TableError::Full { .. })) && (has_tables(&v4) || has_tables(&v6))
        {
            resynced = self.without_new_tables(|own| own.resync_once(&v4, &v6));
        }
        resynced?;
        let has_freed = self.has_retired();
        if let Err(error) = self.free() {
            warn!(%error, "replaced table space stays in use");
        }
        // What stood in the way of a Maglev table may be gone now.
        if has_freed && !self.maglev_use().without_room.is_empty() {
            self.resync_once(&v4, &v6)?;
        }
        Ok(self.writes() - before)
    }

    fn resync_once(
        &mut self,
        v4: &[(FrontendKey<V4>, &Frontend)],
        v6: &[(FrontendKey<V6>, &Frontend)],
    ) -> Result<(), TableError> {
        let v4 = self.v4.stage_resync(v4)?;
        let v6 = self.v6.stage_resync(v6)?;
        carry_out(v4, v6)
    }

    /// A number that grows whenever connections have to be notified that their backend is gone.
    pub const fn departures(&self) -> u64 {
        self.v4.departures() + self.v6.departures()
    }

    /// Returns whether [`Self::reclaim`] has anything to do.
    pub fn has_retired(&self) -> bool {
        self.v4.has_retired() || self.v6.has_retired()
    }

    /// Waits for a grace period and frees what was replaced before it. Makes Maglev tables again that had given way,
    /// if there is room now. Takes milliseconds, so it is for when nothing else is to be done.
    ///
    /// # Errors
    ///
    /// If the kernel cannot wait; nothing is freed then.
    pub fn reclaim(&mut self) -> Result<(), TableError> {
        if self.has_retired() {
            self.wait_and_free()?;
            self.v4.restore_tables();
            self.v6.restore_tables();
        }
        Ok(())
    }

    /// As [`Self::reclaim`], when room is needed.
    fn free(&mut self) -> Result<(), TableError> {
        if self.has_retired() {
            self.wait_and_free()?;
        }
        Ok(())
    }

    /// One wait for both: a grace period is the machine's.
    fn wait_and_free(&mut self) -> Result<(), TableError> {
        self.v4.wait_for_readers()?;
        self.v4.free_retired();
        self.v6.free_retired();
        Ok(())
    }

    /// The frontends that packets find, sorted by address, port and protocol.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read.
    pub fn live(&self) -> Result<Vec<LiveFrontend>, TableError> {
        // Every IPv4 address sorts before every IPv6 address.
        let mut frontends = read_back::read(self.v4.tables())?;
        frontends.extend(read_back::read(self.v6.tables())?);
        Ok(frontends)
    }

    /// Reads single frontends, with these source ranges.
    pub fn reader<'a>(&'a self, ranges: &'a SourceRanges) -> LiveReader<'a, A, B> {
        LiveReader {
            v4: Reader::new(self.v4.tables(), &ranges.v4),
            v6: Reader::new(self.v6.tables(), &ranges.v6),
        }
    }

    /// The source ranges that the tables have, from any writer.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read.
    pub fn source_ranges(&self) -> Result<SourceRanges, TableError> {
        Ok(SourceRanges {
            v4: source_ranges(self.v4.tables().source_ranges()?),
            v6: source_ranges(self.v6.tables().source_ranges()?),
        })
    }

    /// Returns whether the tables hold no frontend from any writer.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn is_empty(&self) -> Result<bool, TableError> {
        Ok(self.v4.tables().frontends()?.is_empty() && self.v6.tables().frontends()?.is_empty())
    }

    /// Returns the use of the tables of frontends, slots and backends.
    pub fn table_use(&self) -> Vec<TableUse> {
        [self.v4.table_use(), self.v6.table_use()].concat()
    }

    /// The Maglev tables of both families, and whose do not fit.
    pub fn maglev_use(&self) -> MaglevUse {
        self.v4.maglev_use().and(self.v6.maglev_use())
    }

    const fn writes(&self) -> u64 {
        self.v4.writes() + self.v6.writes()
    }
}

/// Reads frontends one by one.
#[derive(Debug)]
pub struct LiveReader<'a, A, B> {
    v4: Reader<'a, V4, A>,
    v6: Reader<'a, V6, B>,
}

impl<A: Tables<V4>, B: Tables<V6>> LiveReader<'_, A, B> {
    /// Reads the frontend with this key; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub fn frontend(&mut self, key: &LiveKey) -> Result<Option<LiveFrontend>, TableError> {
        if let Some(key) = key.entry() {
            return self.v4.frontend(key);
        }
        match key.entry() {
            Some(key) => self.v6.frontend(key),
            None => Ok(None),
        }
    }
}

/// Returns whether any of these may have a Maglev table.
fn has_tables<K>(wanted: &[(K, &Frontend)]) -> bool {
    let mut wanted = wanted.iter();
    wanted.any(|(_, frontend)| frontend.backends.maglev.is_some())
}

/// Has the log name service ports whose Maglev tables are given up.
fn log_given_up(family: &str, ports: &BTreeSet<String>) {
    const NAMED: usize = 5;
    let named: Vec<&str> = ports.iter().map(|port| &**port).take(NAMED).collect();
    let more = match ports.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    warn!(
        "{family}: the Maglev tables of {}{more} give way to services that find no slots: these select by weight \
         (--max-slots)",
        named.join(", ")
    );
}

/// Each step in both families before the next one. A change that is dropped on the way is taken
/// back.
fn carry_out<A: Tables<V4>, B: Tables<V6>>(
    mut v4: Change<'_, V4, A>,
    mut v6: Change<'_, V6, B>,
) -> Result<(), TableError> {
    v4.insert()?;
    v6.insert()?;
    v4.commit();
    v6.commit();
    Ok(())
}

/// The tables that one family lacks for these frontends.
fn lacking<F: FromIp>(
    publisher: &Publisher<F, impl Tables<F>>,
    wanted: &[(FrontendKey<F>, &Frontend)],
) -> HashSet<Recipe> {
    // Many frontends have one set.
    let sets: HashMap<_, _> = wanted
        .iter()
        .map(|(_, frontend)| (Arc::as_ptr(&frontend.backends), &frontend.backends))
        .collect();
    let sets = sets.into_values();
    sets.filter_map(|set| publisher.lacks(set)).collect()
}

/// Part of a change for family `F`: entries of its frontend table.
struct OfFamily<'a, F: FromIp> {
    wanted: Vec<(FrontendKey<F>, &'a Frontend)>,
    removed: Vec<FrontendKey<F>>,
}

impl<'a, F: FromIp> OfFamily<'a, F> {
    fn changes(changes: &'a Changes, families: Families) -> Self {
        let wanted = || changes.added.iter().chain(&changes.changed);
        let gone = changes.removed.iter().filter_map(table_key);
        let gone = gone.flat_map(|key| {
            let others = OTHER_SCOPES.map(|(scope, _)| key.scoped(scope));
            iter::once(key).chain(others)
        });
        // A frontend may have had an entry for some of its packets, and not have one now.
        let without = wanted().flat_map(|(key, frontend)| {
            let key = table_key(key);
            let lacking = OTHER_SCOPES.into_iter();
            let lacking = lacking.filter(|(_, of)| of(frontend).is_none());
            lacking.filter_map(move |(scope, _)| Some(key?.scoped(scope)))
        });
        Self {
            wanted: entries(wanted(), families),
            removed: gone.chain(without).collect(),
        }
    }
}

/// The frontend that some packets have in another one's place, if there is one.
type Other = fn(&Frontend) -> Option<&Frontend>;

/// The scopes of what some packets have in a frontend's place, with what that is.
const OTHER_SCOPES: [(u8, Other); 2] = [
    (FrontendKey::<V4>::THIS_NODE, |frontend| {
        frontend.this_node.as_deref()
    }),
    (FrontendKey::<V4>::WITH_DRAINING, |frontend| {
        frontend.with_draining.as_deref()
    }),
];

/// The entries of family `F`'s table that the frontends lead to: one each, and before it those
/// that some packets have in its place, if any; none if it is not one of `families`.
fn entries<'a, F: FromIp>(
    frontends: impl Iterator<Item = &'a (shunt_model::FrontendKey, Frontend)>,
    families: Families,
) -> Vec<(FrontendKey<F>, &'a Frontend)> {
    frontends
        .filter(|(key, _)| families.has(key.address))
        .filter_map(|(key, frontend)| Some((table_key(key)?, frontend)))
        .flat_map(|(key, frontend)| {
            let others = OTHER_SCOPES.into_iter();
            let others =
                others.filter_map(move |(scope, of)| Some((key.scoped(scope), of(frontend)?)));
            others.chain([(key, frontend)])
        })
        .collect()
}

#[cfg(test)]
mod tests;
