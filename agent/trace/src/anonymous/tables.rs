//! The programs' tables and constants with other addresses in place.

use std::collections::BTreeMap;

use bytemuck::{Pod, bytes_of};
use shunt_common::{
    Address, AffinityKey, Backend, Cidr, FilterPlace, FragmentEntry, FragmentKey, FrontendKey,
    NodeIps, Path, PodCidrs, ServiceCidrs, ServiceEntry, SourceRange, Tuple, V4, V6,
    connections::Seeds,
    registry::{self, FamilyConstants, FamilyMaps, handover},
};

use super::{AnonymousError, Replaced};
use crate::{
    dump::{
        content::LinkAddress,
        record::Dump,
        table::{Shape, Table},
    },
    trace::connections::Shown,
};

/// Tables without an address.
const PLAIN: [registry::Map; 10] = [
    registry::GIVEN_PORTS,
    registry::DIRECT,
    registry::COUNTERS,
    registry::SERVICE_CONNECTIONS,
    registry::SERVICE_TRAFFIC,
    registry::PEERS,
    registry::INTERFACES,
    registry::STATIONS,
    registry::VARIABLES,
    registry::REJECTIONS,
];

/// Of one family those without an address.
const fn plain(maps: &FamilyMaps) -> [registry::Map; 4] {
    [
        maps.cells,
        maps.slots,
        maps.backend_connections,
        maps.frontend_services,
    ]
}

impl Replaced {
    /// All tables and constants.
    ///
    /// # Errors
    ///
    /// If one is not known.
    pub(super) fn tables(&mut self, dump: &Dump, new: &mut Dump) -> Result<(), AnonymousError> {
        new.constants = dump.constants.clone();
        self.constants::<V4>(&mut new.constants);
        self.constants::<V6>(&mut new.constants);
        edit(
            new.constants.get_mut(registry::CONNTRACK_SEEDS.name),
            |seeds: &mut Seeds| *seeds = self.seeds,
        );
        let no_addresses: Vec<&str> = PLAIN
            .iter()
            .chain(&plain(&FamilyMaps::V4))
            .chain(&plain(&FamilyMaps::V6))
            .map(|map| map.name)
            .collect();
        for (name, table) in &dump.tables {
            // While one table of connections hands over to another, only the newer one is kept.
            if handover::ALL.iter().any(|map| map.name == name) {
                continue;
            }
            let unknown = || AnonymousError::Unknown(name.clone());
            let replaced = if no_addresses.contains(&name.as_str()) {
                table.clone()
            } else if name == registry::UPLINKS.name {
                self.uplinks(table)
            } else if name == registry::REACHED.name {
                reached(table)
            } else if name == registry::SEEDS.name {
                self.seeds(table).ok_or_else(unknown)?
            } else if name == registry::SERVICES.name {
                services(table).ok_or_else(unknown)?
            } else {
                let of_v4 = self.of_family::<V4>(name, table, dump);
                of_v4
                    .or_else(|| self.of_family::<V6>(name, table, dump))
                    .ok_or_else(unknown)?
            };
            new.tables.insert(name.clone(), replaced);
        }
        filter::<V4>(new);
        filter::<V6>(new);
        Ok(())
    }

    fn constants<F: Shown>(&mut self, constants: &mut BTreeMap<String, Vec<u8>>) {
        let FamilyConstants {
            packets: _,
            pod_cidrs,
            cluster_cidrs,
            dsr_sources,
            hairpin_ip,
            local_node_ports: _,
            conntrack_homes: _,
            previous_homes: _,
        } = F::CONSTANTS;
        for constant in [pod_cidrs, cluster_cidrs, dsr_sources] {
            edit(
                constants.get_mut(constant.name),
                |ranges: &mut PodCidrs<F>| {
                    self.ranges::<F>(&mut ranges.cidrs);
                },
            );
        }
        edit(
            constants.get_mut(hairpin_ip.name),
            |address: &mut F::Address| {
                *address = self.one::<F>(*address);
            },
        );
        // Nothing hands over, as there is no such table.
        if let Some(phase) = constants.get_mut(registry::HANDS_OVER.name) {
            phase.fill(0);
        }
    }

    fn one<F: Shown>(&mut self, address: F::Address) -> F::Address {
        // The unspecified address stays so, whatever the family.
        if address.is_unspecified() {
            return address;
        }
        F::address(self.addresses.address(F::ip(address))).unwrap_or(address)
    }

    fn ranges<F: Shown>(&mut self, ranges: &mut [Cidr<F>]) {
        for range in ranges {
            let mask = range.mask;
            let new = self.one::<F>(range.address);
            range.address = masked::<F>(new, mask);
        }
    }

    fn tuple<F: Shown>(&mut self, tuple: &mut Tuple<F>) {
        tuple.source = self.one::<F>(tuple.source);
        tuple.destination = self.one::<F>(tuple.destination);
    }

    /// The table of this name, if it is one of the family and as it should be.
    fn of_family<F: Shown>(&mut self, name: &str, table: &Table, dump: &Dump) -> Option<Table> {
        let maps = F::MAPS;
        if name == maps.frontends.name {
            self.rewrite(table, |this, key: &mut FrontendKey<F>, _: &mut u32| {
                key.address = this.one::<F>(key.address);
            })
        } else if name == maps.backends.name {
            self.rewrite(table, |this, _: &mut u32, value: &mut Backend<F>| {
                value.address = this.one::<F>(value.address);
            })
        } else if name == maps.source_ranges.name {
            self.source_ranges::<F>(table)
        } else if name == maps.paths.name {
            self.paths::<F>(table)
        } else if name == maps.affinity.name {
            self.rewrite(
                table,
                |this, key: &mut AffinityKey<F>, _: &mut shunt_common::AffinityEntry| {
                    key.client = this.one::<F>(key.client);
                    // The place of an earlier version's frontend.
                    key.nobody = this.one::<F>(key.nobody);
                },
            )
        } else if name == maps.fragments.name {
            self.rewrite(
                table,
                |this, key: &mut FragmentKey<F>, value: &mut FragmentEntry<F>| {
                    key.source = this.one::<F>(key.source);
                    key.destination = this.one::<F>(key.destination);
                    this.tuple(&mut value.translated);
                },
            )
        } else if name == maps.node.name {
            self.rewrite(table, |this, _: &mut u32, value: &mut NodeIps<F>| {
                value.snat = this.one::<F>(value.snat);
                value.own = value.own.map(|own| this.one::<F>(own));
            })
        } else if name == maps.guarded.name {
            self.rewrite(table, |this, key: &mut F::Address, _: &mut u32| {
                *key = this.one::<F>(*key);
            })
        } else if name == maps.locations.name {
            self.rewrite(
                table,
                |this, key: &mut F::Address, value: &mut F::Address| {
                    *key = this.one::<F>(*key);
                    *value = this.one::<F>(*value);
                },
            )
        } else if name == maps.service_cidrs.name {
            self.rewrite(table, |this, _: &mut u32, value: &mut ServiceCidrs<F>| {
                this.ranges::<F>(&mut value.cidrs);
            })
        } else if name == maps.addresses.name {
            // Made anew, of what is in the others.
            Some(Table {
                entries: BTreeMap::new(),
                ..table.clone()
            })
        } else if name == maps.conntrack.name {
            self.connections::<F>(table, dump)
        } else {
            None
        }
    }

    fn rewrite<K: Pod, V: Pod>(
        &mut self,
        table: &Table,
        mut change: impl FnMut(&mut Self, &mut K, &mut V),
    ) -> Option<Table> {
        let entries = table.entries.iter().map(|(key, value)| {
            let mut key: K = bytemuck::try_pod_read_unaligned(key).ok()?;
            let mut value: V = bytemuck::try_pod_read_unaligned(value).ok()?;
            change(self, &mut key, &mut value);
            Some((bytes_of(&key).to_vec(), bytes_of(&value).to_vec()))
        });
        Some(Table {
            entries: entries.collect::<Option<_>>()?,
            ..table.clone()
        })
    }

    /// A key is the number of bits that count, then the frontend and as much of the client as the range has.
    fn source_ranges<F: Shown>(&mut self, table: &Table) -> Option<Table> {
        let entries = table.entries.iter().map(|(key, value)| {
            let (length, rest) = key.split_first_chunk::<4>()?;
            let mut range: SourceRange<F> = bytemuck::try_pod_read_unaligned(rest).ok()?;
            range.frontend.address = self.one::<F>(range.frontend.address);
            let bits = u32::from_ne_bytes(*length).saturating_sub(SourceRange::<F>::FRONTEND_BITS);
            // All of it is read: the range's address is one, with zeros behind its prefix.
            let client = F::address(self.addresses.address(F::ip(range.client)))?;
            range.client = masked::<F>(client, prefix_mask::<F>(bits));
            let key = [&length[..], bytes_of(&range)].concat();
            Some((key, value.clone()))
        });
        Some(Table {
            entries: entries.collect::<Option<_>>()?,
            ..table.clone()
        })
    }

    /// A key is the number of bits that count, then an address with zeros behind its prefix.
    fn paths<F: Shown>(&mut self, table: &Table) -> Option<Table> {
        let entries = table.entries.iter().map(|(key, value)| {
            let (length, rest) = key.split_first_chunk::<4>()?;
            let prefix: F::Address = bytemuck::try_pod_read_unaligned(rest).ok()?;
            let prefix = F::address(self.addresses.address(F::ip(prefix)))?;
            let prefix = masked::<F>(prefix, prefix_mask::<F>(u32::from_ne_bytes(*length)));
            let mut path: Path<F> = bytemuck::try_pod_read_unaligned(value).ok()?;
            path.source = self.one::<F>(path.source);
            let key = [&length[..], bytes_of(&prefix)].concat();
            Some((key, bytes_of(&path).to_vec()))
        });
        Some(Table {
            entries: entries.collect::<Option<_>>()?,
            ..table.clone()
        })
    }

    fn seeds(&mut self, table: &Table) -> Option<Table> {
        self.rewrite(table, |this, _: &mut u32, seeds: &mut Seeds| {
            *seeds = this.seeds;
        })
    }

    /// A value is a link address, and two zeros.
    fn uplinks(&self, table: &Table) -> Table {
        let mut new = table.clone();
        for value in new.entries.values_mut() {
            if let Some(link) = value.first_chunk_mut::<6>() {
                *link = self.addresses.link(LinkAddress(*link)).0;
            }
        }
        new
    }
}

/// Service ports are distinguished by what names they have: that is not to be seen.
fn services(table: &Table) -> Option<Table> {
    let mut new = table.clone();
    for (index, value) in (1_u64..).zip(new.entries.values_mut()) {
        let mut entry: ServiceEntry = bytemuck::try_pod_read_unaligned(value).ok()?;
        if entry.fingerprint != 0 {
            entry.fingerprint = index;
        }
        value.copy_from_slice(bytes_of(&entry));
    }
    Some(new)
}

/// A backend's place depends on its address. So any place may be that of one, reached as lately as the last one was.
fn reached(table: &Table) -> Table {
    let mut new = table.clone();
    let ticks = table.entries.values();
    let last = ticks.filter_map(|tick| bytemuck::try_pod_read_unaligned::<u32>(tick).ok());
    if let (Some(last), Shape::Array(places)) = (last.max(), table.shape) {
        let value = bytes_of(&last).to_vec();
        let places = (0..places).map(|place| (place.to_ne_bytes().to_vec(), value.clone()));
        new.entries = places.collect();
    }
    new
}

/// Changes a constant, if it is one of `T`.
fn edit<T: Pod>(value: Option<&mut Vec<u8>>, change: impl FnOnce(&mut T)) {
    if let Some(value) = value
        && let Ok(mut changed) = bytemuck::try_pod_read_unaligned(value)
    {
        change(&mut changed);
        value.copy_from_slice(bytes_of(&changed));
    }
}

fn masked<F: Shown>(address: F::Address, mask: F::Address) -> F::Address {
    let mut bytes = bytes_of(&address).to_vec();
    for (byte, mask) in bytes.iter_mut().zip(bytes_of(&mask)) {
        *byte &= mask;
    }
    bytemuck::pod_read_unaligned(&bytes)
}

fn prefix_mask<F: Shown>(bits: u32) -> F::Address {
    let width = size_of::<F::Address>();
    let bytes: Vec<u8> = (0..width as u32)
        .map(|byte| match bits.saturating_sub(byte * 8) {
            0 => 0,
            left @ 1..8 => !0 << (8 - left),
            _ => !0,
        })
        .collect();
    bytemuck::pod_read_unaligned(&bytes)
}

/// Makes the filter of addresses anew: those that have frontends, those that are guarded, and those that SNAT gives.
fn filter<F: Shown>(dump: &mut Dump) {
    let address = |bytes: &[u8]| -> Option<F::Address> {
        let bytes = bytes.get(..size_of::<F::Address>())?;
        bytemuck::try_pod_read_unaligned(bytes).ok()
    };
    let maps = F::MAPS;
    let tables = [maps.frontends, maps.guarded, maps.node, maps.paths];
    let [frontends, guarded, node, paths] = tables.map(|map| {
        let table = dump.tables.get(map.name);
        let entries = table.into_iter().flat_map(|table| &table.entries);
        // Keys begin with an address, and what the others hold with one that SNAT gives.
        let is_key = [maps.frontends.name, maps.guarded.name].contains(&map.name);
        let addresses =
            entries.filter_map(|(key, value)| address(if is_key { key } else { value }));
        addresses.collect::<Vec<_>>()
    });
    let sources = node.into_iter().chain(paths);
    let sources = sources.filter(|source| !source.is_unspecified());
    let Some(table) = dump.tables.get_mut(maps.addresses.name) else {
        return;
    };
    let (Shape::Array(_), 8) = (table.shape, table.value_size) else {
        return;
    };
    let mut enter = |address: F::Address, with: fn(FilterPlace, u64) -> u64| {
        let place = FilterPlace::of(&address);
        let word = table.entries.entry(place.word.to_ne_bytes().to_vec());
        let word = word.or_insert_with(|| vec![0; 8]);
        let old: u64 = bytemuck::pod_read_unaligned(word);
        word.copy_from_slice(&with(place, old).to_ne_bytes());
    };
    for address in frontends {
        enter(address, FilterPlace::with_frontends);
    }
    for address in guarded {
        enter(address, FilterPlace::with_guarded);
    }
    for address in sources {
        enter(address, FilterPlace::with_source);
    }
}
