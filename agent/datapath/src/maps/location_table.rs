//! On which nodes addresses are, for direct server return.

use std::{collections::BTreeMap, net::IpAddr};

use aya::{
    Ebpf,
    maps::{HashMap, MapData},
};
use tracing::warn;

use crate::{
    error::DatapathError,
    maps::{family::FromIp, kernel_tables},
    sys::raw::Raw,
};

/// The table of one family: of an address, that of the node where it is.
#[derive(Debug)]
pub(crate) struct LocationTable<F: FromIp> {
    table: HashMap<MapData, Raw<F::Address>, Raw<F::Address>>,
    /// What is in it.
    known: BTreeMap<F::Address, F::Address>,
}

impl<F: FromIp> LocationTable<F> {
    /// Over the object's table, with what an earlier agent has left there.
    ///
    /// # Errors
    ///
    /// If there is no such table, or it cannot be read.
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        let table: HashMap<MapData, Raw<F::Address>, Raw<F::Address>> =
            kernel_tables::take(ebpf, F::MAPS.locations)?;
        // What cannot be read is written anew.
        let entries = table.iter().filter_map(Result::ok);
        let known = entries.map(|(Raw(at), Raw(node))| (at, node)).collect();
        Ok(Self { table, known })
    }

    /// Makes these all that are known; those of the other family are left out. What does not fit is as if its
    /// node were unknown. Gives the number of writes.
    pub(crate) fn set(&mut self, locations: &BTreeMap<IpAddr, IpAddr>) -> u64 {
        let wanted: BTreeMap<F::Address, F::Address> = locations
            .iter()
            .filter_map(|(at, node)| Some((F::address(*at)?, F::address(*node)?)))
            .collect();
        let Self { table, known } = self;
        let mut writes = 0;
        known.retain(|at, _| {
            let stays = wanted.contains_key(at);
            let removed = !stays && kernel_tables::removed(table.remove(&Raw(*at))).is_ok();
            writes += u64::from(removed);
            !removed
        });
        let mut left_out = 0;
        for (at, node) in wanted {
            if known.get(&at) == Some(&node) {
                continue;
            }
            match table.insert(Raw(at), Raw(node), 0) {
                Ok(()) => {
                    writes += 1;
                    known.insert(at, node);
                }
                Err(_) => left_out += 1,
            }
        }
        if left_out > 0 {
            warn!(
                "the nodes of {left_out} {} addresses do not fit: packets for backends there go on by SNAT",
                F::NAME
            );
        }
        writes
    }
}
