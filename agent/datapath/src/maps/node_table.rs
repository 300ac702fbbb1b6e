//! This node's own addresses, as the programs know them.

use std::{collections::BTreeSet, net::IpAddr};

use aya::Ebpf;
use bytemuck::Zeroable as _;
use ipnet::IpNet;
use shunt_common::{Address as _, NodeIps, V4, V6};
use shunt_model::unusable;
use tracing::{info, warn};

use crate::{
    error::DatapathError,
    maps::{address_filter::AddressFilter, family::FromIp, object_maps},
    sys::{preferred_source::preferred_source, shared_array::SharedArray},
};

/// The programs' knowledge of this node before an event.
#[derive(Debug)]
pub struct NodeBefore {
    pub(crate) v4: NodeIps<V4>,
    pub(crate) v6: NodeIps<V6>,
}

/// The table of one family, of one entry.
#[derive(Debug)]
pub(crate) struct NodeTable<F: FromIp> {
    table: SharedArray<NodeIps<F>>,
    filter: AddressFilter<F>,
    /// The address for connections from outside to backends elsewhere, if it is a setting.
    snat: Option<F::Ip>,
    /// Ranges from which this node's pods take their addresses.
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
            table: object_maps::shared(ebpf, F::MAPS.node)?,
            filter: AddressFilter::open(ebpf)?,
            snat,
            pods: pods.to_vec(),
        };
        // An earlier agent may have had other pods.
        node.set_pod_frontends(NodeIps::<F>::UNKNOWN);
        node.filter.add_source(&node.table.read(0).snat);
        let own = [Some(hairpin), snat].into_iter().flatten();
        node.announce(own.map(Into::into), false);
        Ok(node)
    }

    /// Announces that packets for these addresses are going to be translated, and, if they are `all` that
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

    /// Returns what the programs know of the node.
    pub(crate) fn state(&self) -> NodeIps<F> {
        self.table.read(0)
    }

    /// Makes the table what it was before an event that has failed. Connections to a pod's address may live on that
    /// were opened meanwhile. Returns the number of writes.
    pub(crate) fn restore(&mut self, before: &NodeIps<F>) -> u64 {
        let now = self.table.read(0);
        let mut after = *before;
        if now.pod_frontends == NodeIps::<F>::SOME {
            after.pod_frontends = now.pod_frontends;
        }
        if after == now {
            return 0;
        }
        self.table.write(0, after);
        1
    }

    /// Returns the address for connections from outside to backends elsewhere.
    pub(crate) fn snat_source(&self) -> Option<IpAddr> {
        let snat = self.table.read(0).snat;
        (!snat.is_unspecified()).then(|| F::ip(snat))
    }

    /// Makes `own` the node's addresses, where its interfaces have the addresses `host`; those of
    /// the other family are left out. Returns the number of writes.
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
        let snat = snat_source::<F>(&own, &host, self.snat.map(F::network_order))
            .or_else(|| host_source::<F>(&host, preferred_source(F::ANYWHERE)));
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
        // Replies are looked for before any can come.
        self.filter.add_source(&after.snat);
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

/// Returns whether other hosts may answer to the address.
pub(crate) fn is_global(ip: IpAddr) -> bool {
    // Link-local addresses are unique on one link only; IPv6's are unusable anyway.
    unusable(ip).is_none() && !matches!(ip, IpAddr::V4(ip) if ip.is_link_local())
}

/// Returns the address for such connections on a host of which no event names a usable address: the one that the
/// kernel prefers for the way to everywhere, or else the lowest.
fn host_source<F: FromIp>(
    host: &BTreeSet<F::Address>,
    preferred: Option<IpAddr>,
) -> Option<F::Address> {
    let global = |address: &F::Address| {
        let ip = F::ip(*address);
        is_global(ip).then_some((ip, *address))
    };
    let all: Vec<_> = host.iter().filter_map(global).collect();
    let preferred = all.iter().find(|(ip, _)| Some(*ip) == preferred);
    let chosen = preferred.or_else(|| all.iter().min_by_key(|(ip, _)| *ip));
    chosen.map(|(_, address)| *address)
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

    #[test]
    fn a_host_without_a_known_address_takes_a_global_one() {
        let word = |ip: [u8; 4]| u32::from_ne_bytes(ip);
        let [loopback, link, docker, lan] = [
            [127, 0, 0, 1],
            [169, 254, 1, 1],
            [172, 17, 0, 1],
            [192, 168, 1, 5],
        ];
        for (host, preferred, expected) in [
            (&[loopback, link, docker, lan][..], Some(lan), Some(lan)),
            (&[loopback, link, docker, lan], None, Some(docker)),
            (&[docker], Some(lan), Some(docker)),
            (&[loopback, link], Some(loopback), None),
            (&[], None, None),
        ] {
            let words = host.iter().copied().map(word).collect();
            let found = host_source::<V4>(&words, preferred.map(IpAddr::from));
            assert_eq!(found, expected.map(word), "{host:?} {preferred:?}");
        }
    }
}
