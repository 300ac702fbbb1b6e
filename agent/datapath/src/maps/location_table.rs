//! On which nodes addresses are, for direct server return.

use std::collections::BTreeMap;

use aya::{
    Ebpf,
    maps::{HashMap, MapData},
};
use shunt_common::{Family, V4, V6};
use shunt_model::Locations;
use tracing::warn;

use crate::{
    error::DatapathError,
    maps::{family::FromIp, object_maps},
    sys::raw::Raw,
};

/// The table of one family: of an address, that of the node where it is.
#[derive(Debug)]
pub(crate) struct LocationTable<F: FromIp> {
    table: HashMap<MapData, Raw<F::Address>, Raw<F::Address>>,
    /// Its contents.
    known: BTreeMap<F::Address, F::Address>,
    /// Number of changes of these.
    changes: u64,
}

/// Nodes of addresses before a change, of one family.
pub(crate) type Before<F> = Vec<(<F as Family>::Address, Option<<F as Family>::Address>)>;

/// Nodes of addresses before a change.
#[derive(Debug)]
#[must_use = "a change that fails is taken back with it"]
pub struct LocationsBefore {
    pub(crate) v4: Before<V4>,
    pub(crate) v6: Before<V6>,
}

impl LocationsBefore {
    /// Returns the number of writes that the change took.
    pub const fn writes(&self) -> u64 {
        (self.v4.len() + self.v6.len()) as u64
    }
}

impl<F: FromIp> LocationTable<F> {
    /// Over the object's table, with what an earlier agent has left there.
    ///
    /// # Errors
    ///
    /// If there is no such table, or it cannot be read.
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        let table: HashMap<MapData, Raw<F::Address>, Raw<F::Address>> =
            object_maps::take(ebpf, F::MAPS.locations)?;
        // What cannot be read is written anew.
        let entries = table.iter().filter_map(Result::ok);
        let known = entries.map(|(Raw(at), Raw(node))| (at, node)).collect();
        Ok(Self {
            table,
            known,
            changes: 0,
        })
    }

    /// Writes the nodes of addresses; those of the other family are left out. What does not fit is as if
    /// its node were unknown. Returns what was there of the addresses that were written.
    pub(crate) fn add(&mut self, locations: &Locations) -> Before<F> {
        let (mut before, mut left_out) = (Vec::new(), 0);
        for (at, node) in &locations.nodes {
            let node = node.and_then(F::address);
            let (Some(at), Some(node)) = (F::address(*at), node) else {
                continue;
            };
            let was = self.known.get(&at).copied();
            if was == Some(node) {
                continue;
            }
            if self.put(at, Some(node)) {
                before.push((at, was));
            } else {
                left_out += 1;
            }
        }
        if left_out > 0 {
            warn!(
                "the nodes of {left_out} {} addresses do not fit: packets for backends there go on by SNAT",
                F::NAME
            );
        }
        before
    }

    /// Removes the addresses that have no node, and every one that is not named if these are all.
    pub(crate) fn remove(&mut self, locations: &Locations) {
        let Locations { nodes, are_all } = locations;
        let gone: Vec<F::Address> = if *are_all {
            let stays = |at: &&F::Address| !nodes.contains_key(&F::ip(**at));
            self.known.keys().filter(stays).copied().collect()
        } else {
            let gone = nodes.iter().filter(|(_, node)| node.is_none());
            gone.filter_map(|(at, _)| F::address(*at)).collect()
        };
        for at in gone {
            self.put(at, None);
        }
    }

    /// Returns whether nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns the number of changes.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Writes what was there.
    pub(crate) fn restore(&mut self, before: Before<F>) {
        for (at, node) in before {
            self.put(at, node);
        }
    }

    /// Makes this the node of an address, or none. Returns whether that is so.
    fn put(&mut self, at: F::Address, node: Option<F::Address>) -> bool {
        let Self {
            table,
            known,
            changes,
        } = self;
        *changes += 1;
        let Some(node) = node else {
            let is_gone = object_maps::removed(table.remove(&Raw(at))).is_ok();
            if is_gone {
                known.remove(&at);
            }
            return is_gone;
        };
        let is_written = table.insert(Raw(at), Raw(node), 0).is_ok();
        if is_written {
            known.insert(at, node);
        }
        is_written
    }
}
