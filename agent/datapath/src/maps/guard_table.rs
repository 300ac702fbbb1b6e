//! The guard's addresses and ranges, as the programs know them: services' addresses, and the ranges that
//! ClusterIPs are taken from.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use aya::{
    Ebpf,
    maps::{HashMap, MapData},
};
use bytemuck::Zeroable as _;
use ipnet::IpNet;
use shunt_common::{Cidr, Guarded, ServiceCidrs};
use tracing::warn;

use crate::{
    error::DatapathError,
    maps::{address_filter::AddressFilter, family::FromIp, object_maps},
    sys::{grace, raw::Raw, shared_array::SharedArray},
};

/// The tables of one family.
#[derive(Debug)]
pub(crate) struct GuardTable<F: FromIp> {
    filter: AddressFilter<F>,
    guarded: HashMap<MapData, Raw<F::Address>, u32>,
    /// Its contents.
    known: BTreeMap<F::Address, Guarded>,
    ranges: SharedArray<ServiceCidrs<F>>,
}

impl<F: FromIp> GuardTable<F> {
    /// Over the object's tables, which are empty.
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        Ok(Self {
            filter: AddressFilter::open(ebpf)?,
            guarded: object_maps::take(ebpf, F::MAPS.guarded)?,
            known: BTreeMap::new(),
            ranges: object_maps::shared(ebpf, F::MAPS.service_cidrs)?,
        })
    }

    /// Makes these all addresses that are guarded; those of the other family are left out.
    pub(crate) fn set(&mut self, addresses: &BTreeMap<IpAddr, Guarded>) {
        let wanted: BTreeMap<F::Address, Guarded> = addresses
            .iter()
            .filter_map(|(address, guarded)| Some((F::address(*address)?, *guarded)))
            .collect();
        let gone: Vec<F::Address> = self
            .known
            .keys()
            .filter(|address| !wanted.contains_key(address))
            .copied()
            .collect();
        for address in gone {
            self.change_one(address, None);
        }
        for (address, guarded) in &wanted {
            self.change_one(*address, Some(*guarded));
        }
        self.filter.set_guarded(self.known.keys());
    }

    /// Makes this what the address is to the guard, if it is of the family.
    pub(crate) fn change(&mut self, address: IpAddr, guarded: Option<Guarded>) {
        if let Some(address) = F::address(address) {
            self.change_one(address, guarded);
        }
    }

    fn change_one(&mut self, address: F::Address, guarded: Option<Guarded>) {
        if self.known.get(&address).copied() == guarded {
            return;
        }
        let changed = match guarded {
            Some(guarded) => self.guarded.insert(Raw(address), guarded as u32, 0),
            None => object_maps::removed(self.guarded.remove(&Raw(address))),
        };
        match (changed, guarded) {
            (Err(error), _) => {
                warn!(address = %F::ip(address), %error, "an address is not guarded as it should be");
            }
            (Ok(()), Some(guarded)) => {
                self.filter.add_guarded(&address);
                self.known.insert(address, guarded);
            }
            (Ok(()), None) => {
                self.known.remove(&address);
            }
        }
    }

    /// Makes these the ranges that ClusterIPs are taken from; those of the other family are left out.
    pub(crate) fn set_ranges(&mut self, ranges: &BTreeSet<IpNet>) {
        let ranges = IpNet::aggregate(&ranges.iter().copied().collect());
        let cidrs: Vec<Cidr<F>> = ranges
            .iter()
            .filter_map(|range| {
                Some(Cidr {
                    address: F::address(range.network())?,
                    mask: F::address(range.netmask())?,
                })
            })
            .collect();
        let wanted = ranges_of(&cidrs);
        if cidrs.len() > ServiceCidrs::<F>::CAPACITY {
            warn!(
                "of {} {} ranges of ClusterIPs {} are guarded",
                cidrs.len(),
                F::NAME,
                ServiceCidrs::<F>::CAPACITY
            );
        }
        if self.ranges.read(0) == wanted {
            return;
        }
        // No packet reads an address of one range with the mask of another.
        self.ranges.write(
            0,
            ServiceCidrs {
                count: 0,
                ..self.ranges.read(0)
            },
        );
        if let Err(error) = grace::wait_for_readers() {
            warn!(%error, "the ranges of ClusterIPs change while packets read them");
        }
        self.ranges.write(0, ServiceCidrs { count: 0, ..wanted });
        self.ranges.write(0, wanted);
    }
}

/// The table's entry of these ranges, as far as they have room.
fn ranges_of<F: FromIp>(cidrs: &[Cidr<F>]) -> ServiceCidrs<F> {
    let mut entry = ServiceCidrs::zeroed();
    for (place, cidr) in entry.cidrs.iter_mut().zip(cidrs) {
        *place = *cidr;
        entry.count += 1;
    }
    entry
}

#[cfg(test)]
mod tests {
    use shunt_common::V4;

    use super::*;

    #[test]
    fn ranges_beyond_the_room_are_left_out() {
        let cidr = |number: u8| Cidr::<V4> {
            address: u32::from_ne_bytes([10, number, 0, 0]),
            mask: u32::from_ne_bytes([255, 255, 0, 0]),
        };
        let many: Vec<_> = (0..20).map(cidr).collect();
        let entry = ranges_of(&many);
        assert_eq!(entry.count as usize, ServiceCidrs::<V4>::CAPACITY);
        assert_eq!(entry.cidrs[..], many[..ServiceCidrs::<V4>::CAPACITY]);
        assert_eq!(ranges_of::<V4>(&many[..1]).count, 1);
        assert_eq!(ranges_of::<V4>(&[]), ServiceCidrs::zeroed());
    }
}
