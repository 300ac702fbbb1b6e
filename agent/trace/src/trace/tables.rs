//! Findings of the programs in their tables, in the tables' own words.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use bytemuck::Pod;
use shunt_common::{Backend, Cell, FrontendKey, NodeIps, PodCidrs, Slot, maglev::Header};
use shunt_programs::Programs;

use crate::trace::connections::Shown;

/// The value at a key, if it is one of `T`.
pub(crate) fn value<T: Pod>(programs: &Programs, name: &str, key: &[u8]) -> Option<T> {
    let value = programs.value(name, key)?;
    bytemuck::try_pod_read_unaligned(&value).ok()
}

/// The value at an index.
pub(crate) fn at<T: Pod>(programs: &Programs, name: &str, index: u32) -> Option<T> {
    value(programs, name, &index.to_ne_bytes())
}

/// A frontend as packets find it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    /// Its address.
    pub(crate) address: SocketAddr,
    /// True if it is the entry that clients of this node have, or packets that came in an envelope.
    pub(crate) is_of_this_node: bool,
    /// True if it is the entry that packets have which may be of connections to draining backends.
    pub(crate) is_with_draining: bool,
    /// Its cell.
    pub(crate) cell: Cell,
}

/// The frontend with this key.
pub(crate) fn frontend<F: Shown>(programs: &Programs, key: &[u8]) -> Option<Found> {
    let index: u32 = value(programs, F::MAPS.frontends.name, key)?;
    let cell: u64 = at(programs, F::MAPS.cells.name, index)?;
    let key: FrontendKey<F> = bytemuck::try_pod_read_unaligned(key).ok()?;
    Some(Found {
        address: SocketAddr::new(F::ip(key.address), u16::from_be(key.port)),
        is_of_this_node: key.scope == FrontendKey::<F>::THIS_NODE,
        is_with_draining: key.scope == FrontendKey::<F>::WITH_DRAINING,
        cell: Cell::from_word(cell),
    })
}

/// A backend as packets find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) weight: u32,
    pub(crate) is_local: bool,
}

/// The backend with this index.
pub(crate) fn target<F: Shown>(programs: &Programs, index: u32) -> Option<Target> {
    let backend: Backend<F> = at(programs, F::MAPS.backends.name, index)?;
    Some(Target {
        address: SocketAddr::new(F::ip(backend.address), u16::from_be(backend.port)),
        weight: backend.weight,
        is_local: backend.flags & Backend::<F>::LOCAL != 0,
    })
}

/// Backends of new connections, each by its index with its share of them; [`Slot::REFUSED`] is no backend.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shares(pub(crate) BTreeMap<u32, f64>);

/// Maximum number of slots or entries that are read.
const MOST: u32 = Cell::MAX_COUNT;

/// The shares of a frontend with this cell, and for how many seconds clients stay.
pub(crate) fn shares<F: Shown>(programs: &Programs, cell: Cell) -> (Shares, u32) {
    let name = F::MAPS.slots.name;
    let slot = |index: u32| at::<Slot>(programs, name, index);
    let count = cell.count().min(MOST);
    let mut shares = BTreeMap::new();
    let affinity = slot(cell.offset()).map_or(0, |slot| slot.affinity);
    if cell.has(Cell::UNUSABLE) {
        return (Shares::default(), affinity);
    }
    if cell.has(Cell::MAGLEV)
        && let Some(header) = slot(cell.offset() + count)
    {
        let header = Header::of(&header);
        let size = header.size.min(MOST);
        for entry in 0..size {
            let number = (u64::from(entry) << 32).div_ceil(u64::from(header.size)) as u32;
            let (place, byte) = header.locate(number);
            let Some(position) = slot(place).map(|slot| header.position(&slot, byte)) else {
                break;
            };
            if let Some(chosen) = slot(cell.offset().saturating_add(position)) {
                *shares.entry(chosen.backend).or_insert(0.0) += 1.0 / f64::from(size);
            }
        }
        return (Shares(shares), affinity);
    }
    for number in 0..count {
        let Some(slot) = slot(cell.offset() + number) else {
            break;
        };
        let own = f64::from(slot.threshold) / 4_294_967_296.0;
        *shares.entry(slot.backend).or_insert(0.0) += own / f64::from(count);
        *shares.entry(slot.alias).or_insert(0.0) += (1.0 - own) / f64::from(count);
    }
    shares.retain(|_, share| *share > 0.0);
    (Shares(shares), affinity)
}

/// This node's own addresses.
pub(crate) fn own_addresses<F: Shown>(programs: &Programs) -> Vec<IpAddr> {
    let node = at::<NodeIps<F>>(programs, F::MAPS.node.name, 0);
    let own = node.into_iter().flat_map(|node| node.own);
    own.map(F::ip).filter(|ip| !ip.is_unspecified()).collect()
}

/// Returns whether an address is in one of the ranges of a constant.
pub(crate) fn is_in<F: Shown>(ranges: Option<&[u8]>, address: F::Address) -> bool {
    let ranges =
        ranges.and_then(|bytes| bytemuck::try_pod_read_unaligned::<PodCidrs<F>>(bytes).ok());
    ranges.is_some_and(|PodCidrs { count, cidrs }| {
        let used = cidrs.iter().take(count as usize);
        used.into_iter()
            .any(|cidr| shunt_common::Address::matches(&cidr.address, &address, &cidr.mask))
    })
}
