//! Maglev tables among the slots, shared by all frontends with the same backends.
//!
//! A table takes no more than leaves a quarter of the slots free for frontends that select by weight.
//! A frontend whose table does not fit selects by weight, and is counted ([`MaglevUse`]).

use std::{collections::BTreeSet, num::NonZeroU32, sync::Arc};

use shunt_common::{
    Slot,
    maglev::{Header, Seal, checksum, fill_table},
};
use shunt_model::{
    Backend, BackendSet,
    maglev::{MOST_BACKENDS, Member, fingerprint, table},
};

use crate::maps::{family::FromIp, tables::Tables};

/// How much of the slots tables have is not for Maglev tables: one part of so many.
pub(crate) const RESERVE: u32 = 4;

/// The Maglev tables that there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MaglevUse {
    /// How many; frontends with the same backends share one.
    pub tables: u64,
    /// The slots that they take.
    pub slots: u64,
    /// The service ports whose table does not fit, as `namespace/name:port`.
    pub without_room: BTreeSet<String>,
}

impl MaglevUse {
    /// Those of both.
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

/// What a table is made of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Recipe {
    members: Arc<[Member]>,
    size: NonZeroU32,
}

/// A table among the slots.
#[derive(Debug)]
pub(crate) struct MaglevTable {
    pub recipe: Recipe,
    /// The slot of its seal.
    pub offset: u32,
}

impl Recipe {
    /// What the table of the set is to be made of; `None` if it needs none: where one backend at most
    /// takes connections, nothing is to be chosen.
    pub(crate) fn of(set: &BackendSet) -> Option<Self> {
        Self::of_backends(&set.backends, set.maglev?)
    }

    /// The same of a table of `size` entries.
    pub(crate) fn of_backends(backends: &[Backend], size: NonZeroU32) -> Option<Self> {
        let usable = backends.iter().filter(|backend| backend.weight > 0);
        if usable.take(2).count() < 2 {
            return None;
        }
        let members = backends.iter().map(|backend| Member {
            ip: backend.ip,
            port: backend.port,
            weight: backend.weight,
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

    /// How many slots the table takes; `None` if there is no such table.
    pub(crate) fn slots(&self) -> Option<u32> {
        if self.members.len() > MOST_BACKENDS {
            return None;
        }
        extent(self.size.get(), self.width())
    }

    /// The table, seal and entries.
    pub(crate) fn fill(&self) -> Option<Vec<Slot>> {
        let Self { members, size } = self;
        let entries = table(members, *size)?;
        let fingerprint = fingerprint(members, *size);
        Some(fill_table(fingerprint, &entries, self.width()))
    }

    /// Whether a header is that of a slice with such a table, wherever that is.
    pub(crate) fn has_header(&self, header: Header, affinity: u32) -> bool {
        header
            == Header {
                entries: header.entries,
                size: self.size.get(),
                width: self.width(),
                affinity,
            }
    }

    /// Whether this table is at `offset`: sealed, and as it was then. It is not made again for that,
    /// which would take a while for all of them.
    pub(crate) fn is_at<F: FromIp>(&self, tables: &impl Tables<F>, offset: u32) -> bool {
        let Self { members, size } = self;
        let capacity = tables.capacity().slots;
        let end = self
            .slots()
            .and_then(|slots| offset.checked_add(slots))
            .filter(|end| *end <= capacity);
        end.is_some_and(|end| {
            let seal: Seal = bytemuck::cast(tables.slot(offset));
            let entries = (offset + 1..end).map(|slot| tables.slot(slot));
            seal.fingerprint == fingerprint(members, *size) && seal.checksum == checksum(entries)
        })
    }
}

impl MaglevTable {
    /// How many slots it takes.
    pub(crate) fn count(&self) -> u32 {
        self.recipe.slots().unwrap_or_default()
    }

    /// What stands behind a slice that selects by it.
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

/// How many slots a table takes with its seal.
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
