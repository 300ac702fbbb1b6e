//! The live frontends: those that packets find in the kernel's tables, from any writer.
//!
//! Nothing that is read is believed. Where an index lies outside its table, the frontend is shown
//! with the backends that can be read, and equals nothing that anyone wanted.

use std::{collections::HashMap, sync::Arc};

use ipnet::IpNet;
use shunt_common::{Cell, Family, FrontendKey as TableKey, Slot, V4, fill_slots, maglev::Header};

use shunt_model::{Backend, Frontend, Scopes};

use crate::{
    error::TableError,
    maps::{family::FromIp, tables::Tables},
    publish::group::{Extent, Slice},
};

pub(crate) mod key;
mod selection;
pub(crate) mod sources;

use self::{
    key::LiveKey,
    selection::{LiveSelection, LiveTable, shares},
    sources::{Sources, source_ranges},
};

/// A frontend in the kernel's tables.
#[derive(Debug, Clone)]
pub struct LiveFrontend {
    /// Address, port and protocol that clients connect to.
    pub key: LiveKey,
    /// Backends of its connections, in the order of the slots. Frontends of one slice share the list.
    pub backends: Arc<[Backend]>,
    /// Share of each backend in new connections: its weight, or its share of a split in
    /// parts of 2^32, together with what is refused.
    pub shares: Arc<[u32]>,
    /// Number of connections that each backend was chosen for, through any frontend of the service port.
    pub connections: Arc<[u64]>,
    /// The share that is refused; 0: none.
    pub refused: u32,
    /// Session affinity in seconds since the last connection; 0 is off.
    pub affinity_timeout: u32,
    /// Clients that may use it, sorted; empty: everyone.
    pub sources: Vec<IpNet>,
    /// Frontend in its place for clients on this node.
    pub this_node: Option<Box<LiveFrontend>>,
    /// The frontend in its place for packets that may be of connections to draining backends.
    pub with_draining: Option<Box<LiveFrontend>>,
    cell: Cell,
    scope: u8,
    selection: Arc<LiveSelection>,
    /// Everything that it refers to exists.
    sound: bool,
}

impl LiveFrontend {
    /// Returns whether only clients on this node are served.
    pub const fn is_for_this_node(&self) -> bool {
        self.cell.has(Cell::THIS_NODE_ONLY)
    }

    /// Returns whether the clients that may use it are limited, for packets of whatever kind.
    pub fn has_source_ranges(&self) -> bool {
        let others = [&self.this_node, &self.with_draining];
        self.cell.has(Cell::RANGES)
            || others
                .into_iter()
                .flatten()
                .any(|other| other.has_source_ranges())
    }

    /// Takes an entry in that belongs to it: some packets find that in its place. Returns whether it does.
    fn takes(&mut self, next: &mut Self) -> bool {
        let belongs = next.scope > 0 && self.scope == 0 && next.key == self.key;
        if belongs {
            let place = if next.scope == TableKey::<V4>::THIS_NODE {
                &mut self.this_node
            } else {
                &mut self.with_draining
            };
            *place = Some(Box::new(next.clone()));
        }
        belongs
    }

    /// Returns whether packets see exactly `wanted`.
    pub fn is(&self, wanted: &Frontend) -> bool {
        let slice = Slice {
            set: Arc::clone(&wanted.backends),
            offset: self.cell.offset(),
            count: self.cell.count(),
            table: None,
        };
        let flags = self.cell.flags() & (Cell::RANGES | Cell::SECOND_RANGES | Cell::MAGLEV);
        let others = [
            (&self.this_node, &wanted.this_node),
            (&self.with_draining, &wanted.with_draining),
        ];
        let are_others = others.into_iter().all(|other| match other {
            (Some(live), Some(wanted)) => live.is(wanted),
            (None, None) => true,
            _ => false,
        });
        self.sound
            && are_others
            && self.selection.is_that_of(&wanted.backends)
            && *self.backends == *wanted.backends.backends
            && self.affinity_timeout == wanted.backends.affinity_timeout
            && *self.sources == *wanted.sources
            && slice.cell(wanted).with(flags) == self.cell
    }
}

/// The frontends of one family's tables, sorted by address, port and protocol.
///
/// # Errors
///
/// If the frontend table cannot be read.
pub(crate) fn read<F: FromIp, T: Tables<F>>(tables: &T) -> Result<Vec<LiveFrontend>, TableError> {
    let sources = source_ranges(tables.source_ranges()?);
    let mut reader = Reader::new(tables, &sources);
    let entries = tables.frontends()?.into_iter();
    let mut frontends: Vec<LiveFrontend> = entries
        .map(|(key, index)| reader.entry(key, index))
        .collect();
    frontends.sort_by_key(|frontend| (frontend.key.order(), frontend.scope));
    frontends.dedup_by(|next, frontend| frontend.takes(next));
    Ok(frontends)
}

/// Reads frontends of one family, with these source ranges. Frontends of one slice share what was read of it.
#[derive(Debug)]
pub(crate) struct Reader<'a, F: Family, T> {
    tables: &'a T,
    sources: &'a Sources<F>,
    slices: HashMap<Extent, LiveSlice>,
}

impl<'a, F: FromIp, T: Tables<F>> Reader<'a, F, T> {
    pub(crate) fn new(tables: &'a T, sources: &'a Sources<F>) -> Self {
        Self {
            tables,
            sources,
            slices: HashMap::new(),
        }
    }

    /// Reads the frontend with this key; `None` if there is none. Entries of it for some packets alone are no frontend
    /// of their own, as no packet finds them without it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub(crate) fn frontend(
        &mut self,
        key: TableKey<F>,
    ) -> Result<Option<LiveFrontend>, TableError> {
        let Some(index) = self.tables.frontend(key)? else {
            return Ok(None);
        };
        let mut frontend = self.entry(key, index);
        for scope in [TableKey::<F>::THIS_NODE, TableKey::<F>::WITH_DRAINING] {
            let key = key.scoped(scope);
            if let Some(index) = self.tables.frontend(key)? {
                let mut other = self.entry(key, index);
                frontend.takes(&mut other);
            }
        }
        Ok(Some(frontend))
    }

    /// Reads one entry, whose index may be any.
    fn entry(&mut self, key: TableKey<F>, index: u32) -> LiveFrontend {
        let Self {
            tables,
            sources,
            slices,
        } = self;
        let known = index < tables.capacity().frontends;
        let cell = if known {
            tables.cell(index)
        } else {
            Cell::default()
        };
        let slice = Extent::of(cell);
        let slice = slices
            .entry(slice)
            .or_insert_with(|| read_slice(*tables, slice));
        LiveFrontend {
            key: LiveKey::of(&key),
            backends: Arc::clone(&slice.backends),
            shares: Arc::clone(&slice.shares),
            connections: Arc::clone(&slice.connections),
            refused: slice.refused,
            affinity_timeout: slice.affinity_timeout,
            sources: if cell.has(Cell::RANGES) {
                let list = u8::from(cell.has(Cell::SECOND_RANGES));
                sources.get(&key.scoped(list)).cloned().unwrap_or_default()
            } else {
                Vec::new()
            },
            this_node: None,
            with_draining: None,
            cell,
            scope: key.scope,
            selection: Arc::clone(&slice.selection),
            sound: known && slice.sound,
        }
    }
}

/// Contents of the slots of a slice.
#[derive(Debug)]
struct LiveSlice {
    backends: Arc<[Backend]>,
    shares: Arc<[u32]>,
    connections: Arc<[u64]>,
    refused: u32,
    affinity_timeout: u32,
    selection: Arc<LiveSelection>,
    /// All that the slots and the header refer to exists.
    sound: bool,
}

/// Reads a slice.
fn read_slice<F: FromIp, T: Tables<F>>(tables: &T, extent: Extent) -> LiveSlice {
    let Extent {
        offset,
        count,
        has_table,
    } = extent;
    let capacity = tables.capacity();
    // An offset is below 2^28 and a count below 2^20.
    let end = (offset + count).min(capacity.slots);
    let slots: Vec<_> = (offset..end).map(|index| tables.slot(index)).collect();
    let known = slots
        .iter()
        .map(|slot| slot.backend)
        .filter(|index| *index < capacity.backends);
    let indexes: Vec<u32> = known.collect();
    let refuses = slots
        .last()
        .is_some_and(|slot| slot.backend == Slot::REFUSED);
    let entries: Vec<_> = indexes.iter().map(|index| tables.backend(*index)).collect();
    let connections = indexes.iter().map(|index| tables.connections(*index));
    let weights: Vec<u32> = entries.iter().map(|entry| entry.weight).collect();
    let affinity_timeout = slots.first().map_or(0, |slot| slot.affinity);
    let all_exist = indexes.len() + usize::from(refuses) == count as usize;
    let is_by_weight = !refuses && fill_slots(&indexes, &weights, affinity_timeout) == slots;
    let backends = entries.iter().map(|entry| Backend {
        ip: F::ip(entry.address),
        port: u16::from_be(entry.port),
        weight: entry.weight,
        local: entry.flags & shunt_common::Backend::<F>::LOCAL != 0,
        scopes: Scopes {
            cluster: entry.flags & shunt_common::Backend::<F>::IN_CLUSTER_SET != 0,
            local: entry.flags & shunt_common::Backend::<F>::IN_LOCAL_SET != 0,
        },
    });
    let backends: Arc<[Backend]> = backends.collect();
    let table = (has_table && offset + count < capacity.slots).then(|| {
        let header = Header::of(&tables.slot(offset + count));
        LiveTable::read(tables, header, &backends, affinity_timeout)
    });
    let mut shares = if is_by_weight {
        weights
    } else {
        shares(&slots)
    };
    let refused = if refuses && !is_by_weight {
        shares.pop().unwrap_or_default()
    } else {
        0
    };
    LiveSlice {
        backends,
        shares: shares.into(),
        connections: connections.collect(),
        refused,
        affinity_timeout,
        sound: all_exist && has_table == table.is_some(),
        selection: Arc::new(LiveSelection {
            slots,
            is_by_weight,
            table,
        }),
    }
}

#[cfg(test)]
mod tests;
