//! This node's own addresses, as the programs know them.

use std::{collections::BTreeSet, net::IpAddr};

use bytemuck::Zeroable as _;
use shunt_common::{Address as _, Family, NodeIps};
use tracing::warn;

use super::{family::FromIp, shared_array::SharedArray};

/// The table of one family, of one entry.
#[derive(Debug)]
pub struct NodeTable<F: Family> {
    table: SharedArray<NodeIps<F>>,
    /// The address for connections from outside to backends elsewhere, if it is a setting.
    snat: Option<IpAddr>,
}

impl<F: FromIp> NodeTable<F> {
    /// Over the table; without a setting, `snat` is the lowest of the node's addresses.
    pub(super) const fn new(table: SharedArray<NodeIps<F>>, snat: Option<IpAddr>) -> Self {
        Self { table, snat }
    }

    /// Makes `own` the node's addresses; those of the other family are left out. Gives the number
    /// of writes.
    pub fn set(&mut self, own: &BTreeSet<IpAddr>) -> u64 {
        let before = self.table.read(0);
        let after = replaced(before, own, self.snat);
        let left_out = own.iter().filter_map(|ip| F::address(*ip)).count();
        if left_out > NodeIps::<F>::CAPACITY {
            warn!(
                "this node has {left_out} addresses, of which {} are taken for its own",
                NodeIps::<F>::CAPACITY
            );
        }
        if after == before {
            return 0;
        }
        self.table.write(0, after);
        1
    }
}

/// `before` with the addresses `own` in place of its own: what stays, stays at its place.
fn replaced<F: FromIp>(
    before: NodeIps<F>,
    own: &BTreeSet<IpAddr>,
    snat: Option<IpAddr>,
) -> NodeIps<F> {
    let own: BTreeSet<F::Address> = own.iter().filter_map(|ip| F::address(*ip)).collect();
    let lowest = own.iter().min_by_key(|address| F::ip(**address)).copied();
    let free = F::Address::zeroed();
    let mut after = before;
    after.snat = snat.and_then(F::address).or(lowest).unwrap_or(free);
    for place in &mut after.own {
        if !own.contains(place) {
            *place = free;
        }
    }
    let kept: BTreeSet<F::Address> = after.own.into_iter().collect();
    let places = after.own.iter_mut().filter(|place| place.is_unspecified());
    for (place, new) in places.zip(own.difference(&kept)) {
        *place = *new;
    }
    after
}

#[cfg(test)]
mod tests {
    use shunt_common::V4;

    use super::*;

    #[test]
    fn an_address_that_stays_stays_at_its_place() {
        let ips = |last: &[u8]| -> BTreeSet<IpAddr> {
            last.iter()
                .map(|last| IpAddr::from([10, 0, 0, *last]))
                .collect()
        };
        let word = |last: u8| u32::from_ne_bytes([10, 0, 0, last]);
        let first = replaced(NodeIps::<V4>::zeroed(), &ips(&[1, 2, 3]), None);
        assert_eq!(first.own[..4], [word(1), word(2), word(3), 0]);
        assert_eq!(first.snat, word(1));
        let second = replaced(
            first,
            &ips(&[2, 4, 5, 3]),
            Some(IpAddr::from([10, 0, 0, 3])),
        );
        assert_eq!(second.own[..5], [word(4), word(2), word(3), word(5), 0]);
        assert_eq!(second.snat, word(3));
        let third = replaced(second, &ips(&[]), None);
        assert_eq!(third, NodeIps::zeroed());
    }
}
