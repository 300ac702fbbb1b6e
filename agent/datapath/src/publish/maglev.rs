//! Maglev tables among the slots, shared by all frontends with the same backends.
//!
//! A table takes no more than leaves a quarter of the slots free for frontends that select by weight.
//! A frontend whose table does not fit selects by weight, and is counted ([`MaglevUse`]). In each change tables come
//! last, and those that there are give way to sets that would find no slots.

use std::{
    collections::{BTreeSet, HashMap},
    iter,
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU32,
    sync::Arc,
};

use shunt_common::{
    Slot,
    maglev::{Header, Seal, checksum, fill_table},
};
use shunt_model::{
    Backend, BackendSet,
    maglev::{MOST_BACKENDS, Member, fingerprint, table},
};

use crate::maps::{family::FromIp, tables::Tables};

/// Part of the slots that is not for Maglev tables: one in so many.
pub(crate) const RESERVE: u32 = 4;

/// Stand-in for the share that is refused: an address and a port that no backend has.
const NOBODY: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The Maglev tables that there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MaglevUse {
    /// Number of tables; frontends with the same backends share one.
    pub tables: u64,
    /// The slots that they take.
    pub slots: u64,
    /// The service ports whose table does not fit, as `namespace/name:port`.
    pub without_room: BTreeSet<String>,
}

impl MaglevUse {
    /// Returns the tables of both.
    #[must_use]
    pub(crate) fn and(mut self, other: Self) -> Self {
        let Self {
            tables,
            slots,
            without_room,
        } = other;
        self.tables += tables;
        self.slots += slots;
        self.without_room.extend(without_room);
        self
    }
}

/// All inputs of a table: every process that makes it, anywhere, makes the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Recipe {
    members: Arc<[Member]>,
    size: NonZeroU32,
}

/// A table that is not among the slots yet: its seal and its entries.
#[derive(Debug, Clone)]
pub struct MadeTable(Arc<Vec<Slot>>);

/// Tables that were made before the change that needs them.
#[derive(Debug, Clone, Default)]
pub struct ReadyTables(HashMap<Recipe, MadeTable>);

impl FromIterator<(Recipe, MadeTable)> for ReadyTables {
    fn from_iter<I: IntoIterator<Item = (Recipe, MadeTable)>>(tables: I) -> Self {
        Self(tables.into_iter().collect())
    }
}

impl ReadyTables {
    /// That of this recipe, if it is among them.
    pub(crate) fn get(&self, recipe: &Recipe) -> Option<&[Slot]> {
        self.0.get(recipe).map(|MadeTable(slots)| slots.as_slice())
    }
}

/// A table among the slots.
#[derive(Debug)]
pub(crate) struct MaglevTable {
    pub recipe: Recipe,
    /// The slot of its seal.
    pub offset: u32,
}

impl Recipe {
    /// Returns the recipe of the set's table; `None` if it needs none: where one backend at most
    /// takes connections, nothing is to be chosen.
    pub(crate) fn of(set: &BackendSet) -> Option<Self> {
        let size = set.maglev?;
        Self::of_shares(&set.backends, &set.shares(), size)
    }

    /// The same of a table of `size` entries, which backends with these shares have, and behind them the
    /// share that is refused, if there is one.
    pub(crate) fn of_shares(
        backends: &[Backend],
        shares: &[u32],
        size: NonZeroU32,
    ) -> Option<Self> {
        let usable = shares.iter().filter(|share| **share > 0);
        if usable.take(2).count() < 2 {
            return None;
        }
        let addresses = backends.iter().map(|backend| (backend.ip, backend.port));
        let members =
            addresses
                .chain(iter::repeat(NOBODY))
                .zip(shares)
                .map(|((ip, port), share)| Member {
                    ip,
                    port,
                    weight: *share,
                });
        Some(Self {
            members: members.collect(),
            size,
        })
    }

    /// The bytes of an entry.
    fn width(&self) -> u32 {
        if self.members.len() <= 1 << 8 { 1 } else { 2 }
    }

    /// Returns the number of slots that the table takes; `None` if there is no such table.
    pub(crate) fn slots(&self) -> Option<u32> {
        if self.members.len() > MOST_BACKENDS {
            return None;
        }
        extent(self.size.get(), self.width())
    }

    /// Returns the number of the table's entries, which the time to make it depends on.
    pub const fn entries(&self) -> u32 {
        self.size.get()
    }

    /// Makes the table, which takes some 0.2 ms for 16,381 entries and a second for 16,777,213.
    /// `None` if there is no such table.
    pub fn make(&self) -> Option<MadeTable> {
        self.fill().map(|slots| MadeTable(Arc::new(slots)))
    }

    /// The table, seal and entries.
    pub(crate) fn fill(&self) -> Option<Vec<Slot>> {
        let Self { members, size } = self;
        let entries = table(members, *size)?;
        let fingerprint = fingerprint(members, *size);
        Some(fill_table(fingerprint, &entries, self.width()))
    }

    /// Returns whether a header is that of a slice with such a table, wherever that is.
    pub(crate) fn has_header(&self, header: Header, affinity: u32) -> bool {
        header
            == Header {
                entries: header.entries,
                size: self.size.get(),
                width: self.width(),
                affinity,
            }
    }

    /// Returns whether this table is at `offset`: sealed, and as it was then. It is not made again for that,
    /// which would take a while for all of them.
    pub(crate) fn is_at<F: FromIp>(&self, tables: &impl Tables<F>, offset: u32) -> bool {
        let range = self.slots().map(|count| (offset, count));
        range.and_then(|range| sealed(tables, range)) == Some(self.fingerprint())
    }

    /// Returns the fingerprint of its inputs, as it is in its seal.
    pub(crate) fn fingerprint(&self) -> u64 {
        fingerprint(&self.members, self.size)
    }
}

/// Returns the fingerprint of the table in these slots (offset, count), if it is as it was when it was sealed.
pub(crate) fn sealed<F: FromIp>(
    tables: &impl Tables<F>,
    (offset, count): (u32, u32),
) -> Option<u64> {
    let capacity = tables.capacity().slots;
    let end = offset.checked_add(count).filter(|end| *end <= capacity)?;
    let seal: Seal = bytemuck::cast(tables.slot(offset));
    let entries = (offset + 1..end).map(|slot| tables.slot(slot));
    (seal.checksum == checksum(entries)).then_some(seal.fingerprint)
}

impl MaglevTable {
    /// Returns the number of slots that it takes.
    pub(crate) fn count(&self) -> u32 {
        self.recipe.slots().unwrap_or_default()
    }

    /// Returns the slot behind a slice that selects by it.
    pub(crate) fn header(&self, affinity: u32) -> Slot {
        let Self { recipe, offset } = self;
        bytemuck::cast(Header {
            entries: offset + 1,
            size: recipe.size.get(),
            width: recipe.width(),
            affinity,
        })
    }
}

/// Returns the number of slots of a table with its seal.
fn extent(size: u32, width: u32) -> Option<u32> {
    let per_slot = (size_of::<Slot>() as u32).checked_div(width)?;
    size.div_ceil(per_slot).checked_add(1)
}

/// The slots (offset, count) of the table that whatever stands behind a slice refers to, if they are
/// among so many.
pub(crate) fn table_of(header: Header, slots: u32) -> Option<(u32, u32)> {
    let Header {
        entries,
        size,
        width,
        affinity: _,
    } = header;
    let count = extent(size, width).filter(|_| width == 1 || width == 2)?;
    let offset = entries.checked_sub(1)?;
    let end = offset.checked_add(count)?;
    (end <= slots).then_some((offset, count))
}
