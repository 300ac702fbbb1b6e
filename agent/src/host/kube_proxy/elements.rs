//! Frontends of kube-proxy's nftables rules: the elements of its maps.

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, SocketAddr},
};

use super::tables::TABLE;
use crate::host::nfnetlink::{Family, NFTABLES, attributes, list, text, value_of};

/// `NFT_MSG_GETSETELEM`.
const GET_ELEMENTS: u8 = 13;

/// `NFTA_SET_ELEM_LIST_TABLE`, `..._SET` and `..._ELEMENTS`, `NFTA_LIST_ELEM`, `NFTA_SET_ELEM_KEY` and
/// `NFTA_DATA_VALUE`.
const LIST_TABLE: u16 = 1;
const LIST_SET: u16 = 2;
const LIST_ELEMENTS: u16 = 3;
const KEY: u16 = 1;
const VALUE: u16 = 1;

/// Of what kube-proxy's rules have the destination translated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Frontends {
    /// ClusterIPs, external and load balancer addresses, with protocol and port.
    addresses: BTreeSet<(u8, SocketAddr)>,
    /// NodePorts, with their protocol.
    ports: BTreeSet<(u8, u16)>,
}

impl Frontends {
    /// Returns the frontends of the table of this family; none if it is not there.
    ///
    /// # Errors
    ///
    /// If the kernel does not list them.
    pub(super) fn of(family: Family) -> io::Result<Self> {
        let mut frontends = Self::default();
        keys(family, "service-ips", |key| {
            frontends.addresses.extend(address(family, key));
        })?;
        keys(family, "service-nodeports", |key| {
            frontends.ports.extend(port(key));
        })?;
        Ok(frontends)
    }

    /// Returns whether one of them is meant by this protocol, address and port.
    pub(super) fn has(&self, protocol: u8, to: SocketAddr) -> bool {
        self.addresses.contains(&(protocol, to)) || self.ports.contains(&(protocol, to.port()))
    }
}

/// Hands `take` the key of each element of a map or set.
fn keys(family: Family, set: &str, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let asked = [text(LIST_TABLE, TABLE), text(LIST_SET, set)].concat();
    list(NFTABLES, GET_ELEMENTS, family as u8, &asked, |message| {
        for (_, element) in attributes(value_of(message, LIST_ELEMENTS).unwrap_or_default()) {
            if let Some(key) = value_of(element, KEY).and_then(|key| value_of(key, VALUE)) {
                take(key);
            }
        }
    })
}

/// Reads `ipv4_addr . inet_proto . inet_service`, or with an IPv6 address: each part begins at a
/// multiple of 4 bytes.
fn address(family: Family, key: &[u8]) -> Option<(u8, SocketAddr)> {
    let (ip, rest): (IpAddr, _) = match family {
        Family::V4 => {
            let (octets, rest) = key.split_first_chunk::<4>()?;
            ((*octets).into(), rest)
        }
        Family::V6 => {
            let (octets, rest) = key.split_first_chunk::<16>()?;
            ((*octets).into(), rest)
        }
    };
    let (protocol, port) = port(rest)?;
    Some((protocol, SocketAddr::new(ip, port)))
}

/// Reads `inet_proto . inet_service`.
const fn port(key: &[u8]) -> Option<(u8, u16)> {
    match key {
        [protocol, _, _, _, high, low, ..] => Some((*protocol, u16::from_be_bytes([*high, *low]))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_part_by_part() {
        let v4 = [10, 96, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0];
        let expected = Some((6, "10.96.0.1:80".parse().unwrap()));
        assert_eq!(address(Family::V4, &v4), expected);
        let mut v6 = [0; 24];
        v6[..2].copy_from_slice(&[0xfd, 0]);
        v6[15] = 1;
        v6[16..22].copy_from_slice(&[17, 0, 0, 0, 0, 53]);
        let expected = Some((17, "[fd00::1]:53".parse().unwrap()));
        assert_eq!(address(Family::V6, &v6), expected);
        assert_eq!(address(Family::V6, &v4), None);
        assert_eq!(port(&v4[4..]), Some((6, 80)));
        assert_eq!(port(&[6, 0]), None);
    }
}
