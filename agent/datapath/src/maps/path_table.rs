//! The ways to addresses elsewhere, as the programs know them.

use std::collections::BTreeMap;

use aya::{
    Ebpf,
    maps::{LpmTrie, MapData, MapError, lpm_trie::Key},
};
use bytemuck::Zeroable as _;
use ipnet::IpNet;
use shunt_common::{Address as _, Path};
use tracing::warn;

use crate::{
    error::DatapathError,
    maps::{address_filter::AddressFilter, family::FromIp, node_table::is_global, object_maps},
    routes::way::Way,
    sys::raw::Raw,
};

/// The table of one family.
#[derive(Debug)]
pub(crate) struct PathTable<F: FromIp> {
    table: LpmTrie<MapData, Raw<F::Address>, Raw<Path<F>>>,
    filter: AddressFilter<F>,
    /// Its contents.
    known: BTreeMap<IpNet, Path<F>>,
    /// True if a setting gives the address of SNAT.
    is_source_set: bool,
    /// Ranges from which this node's pods take their addresses: packets for these are for pods.
    pods: Vec<IpNet>,
}

impl<F: FromIp> PathTable<F> {
    /// Over the object's table. `is_source_set`: a setting gives the address of SNAT.
    pub(crate) fn take(
        ebpf: &mut Ebpf,
        is_source_set: bool,
        pods: &[IpNet],
    ) -> Result<Self, DatapathError> {
        Ok(Self {
            filter: AddressFilter::open(ebpf)?,
            table: object_maps::take(ebpf, F::MAPS.paths)?,
            known: BTreeMap::new(),
            is_source_set,
            pods: pods.to_vec(),
        })
    }

    /// Makes these all ways there are; those of the other family are left out. What does not fit is as if it were not
    /// known.
    pub(crate) fn set(&mut self, ways: &BTreeMap<IpNet, Way>) {
        let wanted = ways.iter().filter_map(|(prefix, way)| {
            F::address(prefix.network())?;
            Some((*prefix, self.path(way)))
        });
        let wanted: BTreeMap<IpNet, Path<F>> = wanted.collect();
        let gone: Vec<IpNet> = self
            .known
            .keys()
            .copied()
            .filter(|prefix| !wanted.contains_key(prefix))
            .collect();
        let mut refused = None;
        for (prefix, path) in wanted {
            if self.known.get(&prefix) != Some(&path) {
                refused = self.write(prefix, path).err().or(refused);
            }
        }
        // Their addresses have the way around theirs from now on.
        for prefix in gone {
            refused = self.remove(prefix).err().or(refused);
        }
        if let Some(error) = refused {
            warn!(%error, "the programs do not know all ways of {}", F::NAME);
        }
    }

    /// Returns whether any way has an MTU.
    pub(crate) fn are_any_narrow(&self) -> bool {
        self.known.values().any(|path| path.mtu != 0)
    }

    fn path(&self, way: &Way) -> Path<F> {
        let source = way.source.filter(|source| {
            !self.is_source_set
                && is_global(*source)
                && !self.pods.iter().any(|pods| pods.contains(source))
        });
        Path {
            source: source.and_then(F::address).unwrap_or(F::Address::zeroed()),
            mtu: way.mtu.unwrap_or_default(),
        }
    }

    fn write(&mut self, prefix: IpNet, path: Path<F>) -> Result<(), MapError> {
        // Replies are looked for before any can come.
        if !path.source.is_unspecified() {
            self.filter.add_source(&path.source);
        }
        let Some(key) = key::<F>(prefix) else {
            return Ok(());
        };
        self.table.insert(&key, Raw(path), 0)?;
        self.known.insert(prefix, path);
        Ok(())
    }

    fn remove(&mut self, prefix: IpNet) -> Result<(), MapError> {
        if let Some(key) = key::<F>(prefix) {
            object_maps::removed(self.table.remove(&key))?;
        }
        self.known.remove(&prefix);
        Ok(())
    }
}

fn key<F: FromIp>(prefix: IpNet) -> Option<Key<Raw<F::Address>>> {
    let address = F::address(prefix.network())?;
    Some(Key::new(prefix.prefix_len().into(), Raw(address)))
}
