//! This node's own addresses, as the programs know them.

use std::{collections::BTreeSet, net::IpAddr};

use aya::Ebpf;
use bytemuck::Zeroable as _;
use ipnet::IpNet;
use shunt_common::{Address as _, NodeIps};
use tracing::{info, warn};

use crate::{
    error::DatapathError,
    maps::{family::FromIp, kernel_tables},
    sys::shared_array::SharedArray,
};

/// The table of one family, of one entry.
#[derive(Debug)]
pub(crate) struct NodeTable<F: FromIp> {
    table: SharedArray<NodeIps<F>>,
    /// The address for connections from outside to backends elsewhere, if it is a setting.
    snat: Option<F::Ip>,
    /// Where this node's pods take their addresses from.
    pods: Vec<IpNet>,
}

impl<F: FromIp> NodeTable<F> {
    /// Over the object's table; without a setting, `snat` is the lowest of the node's addresses
    /// that its interfaces have.
    pub(crate) fn open(
        ebpf: &Ebpf,
        snat: Option<F::Ip>,
        hairpin: F::Ip,
        pods: &[IpNet],
    ) -> Result<Self, DatapathError> {
        let mut node = Self {
            table: kernel_tables::shared(ebpf, F::MAPS.node)?,
            snat,
            pods: pods.to_vec(),
        };
        // An earlier agent may have had other pods.
        node.set_pod_frontends(NodeIps::<F>::UNKNOWN);
        let own = [Some(hairpin), snat].into_iter().flatten();
        node.announce(own.map(Into::into), false);
        Ok(node)
    }

    /// Says that packets for these addresses are going to be translated, and, if they are `all` that
    /// the events know of, that there are no others.
    pub(crate) fn announce(&mut self, mut addresses: impl Iterator<Item = IpAddr>, all: bool) {
        let is_of_pod =
            |ip| F::address(ip).is_some() && self.pods.iter().any(|pods| pods.contains(&ip));
        if addresses.any(is_of_pod) {
            self.set_pod_frontends(NodeIps::<F>::SOME);
        } else if all {
            self.set_pod_frontends(NodeIps::<F>::NEVER);
        }
    }

    /// Makes it so, unless there were such addresses: connections to them may live on.
    fn set_pod_frontends(&mut self, new: u32) {
        let mut node = self.table.read(0);
        if node.pod_frontends != new && node.pod_frontends != NodeIps::<F>::SOME {
            node.pod_frontends = new;
            self.table.write(0, node);
        }
    }

    /// Makes `own` the node's addresses, where its interfaces have the addresses `host`; those of
    /// the other family are left out. Gives the number of writes.
    pub(crate) fn set(&mut self, own: &BTreeSet<IpAddr>, host: &BTreeSet<IpAddr>) -> u64 {
        self.announce(own.iter().copied(), false);
        let of_family = |ips: &BTreeSet<IpAddr>| -> BTreeSet<F::Address> {
            ips.iter().filter_map(|ip| F::address(*ip)).collect()
        };
        let (own, host) = (of_family(own), of_family(host));
        if own.len() > NodeIps::<F>::CAPACITY {
            warn!(
                "this node has {} {} addresses, of which {} are taken for its own",
                own.len(),
                F::NAME,
                NodeIps::<F>::CAPACITY
            );
        }
        let before = self.table.read(0);
        let snat = snat_source::<F>(&own, &host, self.snat.map(F::network_order));
        let after = replaced::<F>(before, &own, snat);
        if after == before {
            return 0;
        }
        if after.snat != before.snat && !before.snat.is_unspecified() {
            let (from, to) = (F::ip(before.snat), F::ip(after.snat));
            info!(
                %from,
                %to,
                "new connections that need SNAT go on from another address"
            );
        }
        self.table.write(0, after);
        1
    }
}

/// The address for connections from outside to backends elsewhere: the setting, or else the lowest
/// of the node's. One that no interface has does only if there is no other: it may come back, or
/// be routed here, but where it has moved away the replies would go there.
fn snat_source<F: FromIp>(
    own: &BTreeSet<F::Address>,
    host: &BTreeSet<F::Address>,
    setting: Option<F::Address>,
) -> Option<F::Address> {
    let lowest = |addresses: &mut dyn Iterator<Item = &F::Address>| {
        addresses.min_by_key(|address| F::ip(**address)).copied()
    };
    let is_here = |address: &F::Address| host.contains(address);
    setting
        .filter(is_here)
        .or_else(|| lowest(&mut own.intersection(host)))
        .or(setting)
        .or_else(|| lowest(&mut own.iter()))
}

/// `before` with the addresses `own` in place of its own: what stays, stays at its place.
fn replaced<F: FromIp>(
    before: NodeIps<F>,
    own: &BTreeSet<F::Address>,
    snat: Option<F::Address>,
) -> NodeIps<F> {
    let free = F::Address::zeroed();
    let mut after = before;
    after.snat = snat.unwrap_or(free);
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
        let word = |last: u8| u32::from_ne_bytes([10, 0, 0, last]);
        let words = |last: &[u8]| last.iter().map(|last| word(*last)).collect();
        let first = replaced(NodeIps::<V4>::zeroed(), &words(&[1, 2, 3]), Some(word(1)));
        assert_eq!(first.own[..4], [word(1), word(2), word(3), 0]);
        assert_eq!(first.snat, word(1));
        let second = replaced(first, &words(&[2, 4, 5, 3]), Some(word(3)));
        assert_eq!(second.own[..5], [word(4), word(2), word(3), word(5), 0]);
        assert_eq!(second.snat, word(3));
        let third = replaced(second, &words(&[]), None);
        assert_eq!(third, NodeIps::zeroed());
    }

    #[test]
    fn snat_takes_an_address_that_the_host_has_if_there_is_one() {
        let word = |last: u8| u32::from_ne_bytes([10, 0, 0, last]);
        let words = |last: &[u8]| last.iter().map(|last| word(*last)).collect();
        for (own, host, setting, expected) in [
            (&[2, 1, 3][..], &[1, 2, 3, 9][..], None, Some(1)),
            (&[1, 2, 3], &[2, 3, 9], None, Some(2)),
            (&[1, 2, 3], &[3, 9], Some(9), Some(9)),
            (&[1, 2, 3], &[3], Some(9), Some(3)),
            (&[1, 2], &[], Some(9), Some(9)),
            (&[1, 2], &[8], None, Some(1)),
            (&[], &[8], None, None),
        ] {
            let found = snat_source::<V4>(&words(own), &words(host), setting.map(word));
            assert_eq!(found, expected.map(word), "{own:?} {host:?} {setting:?}");
        }
    }
}
