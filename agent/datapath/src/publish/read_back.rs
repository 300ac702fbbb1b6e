//! The live frontends: those that packets find in the kernel's tables, from any writer.
//!
//! Nothing that is read is believed. Where an index lies outside its table, the frontend is shown
//! with the backends that can be read, and equals nothing that anyone wanted.

use std::{collections::HashMap, sync::Arc};

use ipnet::IpNet;
use shunt_common::{Cell, FrontendKey as TableKey, Slot, SourceRange, fill_slots, maglev::Header};

use shunt_model::{Backend, Frontend, Scopes};

use crate::{
    error::TableError,
    maps::{family::FromIp, tables::Tables},
    publish::group::{Extent, Slice},
};

pub(crate) mod key;
mod selection;

use self::{
    key::LiveKey,
    selection::{LiveSelection, LiveTable, shares},
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
    let capacity = tables.capacity();
    let mut slices = HashMap::new();
    let mut sources = read_sources(tables)?;
    let mut frontends: Vec<LiveFrontend> = tables
        .frontends()?
        .into_iter()
        .map(|(key, index)| {
            let known = index < capacity.frontends;
            let cell = if known {
                tables.cell(index)
            } else {
                Cell::default()
            };
            let slice = Extent::of(cell);
            let slice = slices
                .entry(slice)
                .or_insert_with(|| read_slice(tables, slice));
            LiveFrontend {
                key: LiveKey {
                    address: F::ip(key.address),
                    port: u16::from_be(key.port),
                    protocol: key.protocol,
                },
                backends: Arc::clone(&slice.backends),
                shares: Arc::clone(&slice.shares),
                connections: Arc::clone(&slice.connections),
                refused: slice.refused,
                affinity_timeout: slice.affinity_timeout,
                sources: if cell.has(Cell::RANGES) {
                    let list = u8::from(cell.has(Cell::SECOND_RANGES));
                    sources.remove(&key.scoped(list)).unwrap_or_default()
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
        })
        .collect();
    frontends.sort_by_key(|frontend| (frontend.key.order(), frontend.scope));
    frontends.dedup_by(|next, frontend| {
        let belongs = next.scope > 0 && frontend.scope == 0 && next.key == frontend.key;
        if belongs {
            let place = if next.scope == TableKey::<F>::THIS_NODE {
                &mut frontend.this_node
            } else {
                &mut frontend.with_draining
            };
            *place = Some(Box::new(next.clone()));
        }
        belongs
    });
    Ok(frontends)
}

/// The source ranges by frontend, the scope showing which list it is, each list sorted. What is
/// no range is left out.
fn read_sources<F: FromIp, T: Tables<F>>(
    tables: &T,
) -> Result<HashMap<TableKey<F>, Vec<IpNet>>, TableError> {
    let mut sources: HashMap<_, Vec<IpNet>> = HashMap::new();
    for (bits, range) in tables.source_ranges()? {
        let length = bits.checked_sub(SourceRange::<F>::FRONTEND_BITS);
        let length = length.and_then(|length| u8::try_from(length).ok());
        let network = length.map(|length| IpNet::new(F::ip(range.client), length));
        if let Some(Ok(network)) = network {
            sources.entry(range.frontend).or_default().push(network);
        }
    }
    for list in sources.values_mut() {
        list.sort();
    }
    Ok(sources)
}

/// Contents of the slots of a slice.
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
